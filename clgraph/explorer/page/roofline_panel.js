/* Arithmetic a second over arithmetic a byte, beside what the device allows; both axes are logarithmic. */

const WINOGRAD =
  "Winograd's method computes a convolution with fewer multiplications than counted here, those of the plain sum: " +
  "such a kernel may stand above the roofline.";

function rooflinePanel(panel, pane, go) {
  const { profile, device } = pane.history.graph;
  const points = (profile?.commands ?? [])
    .filter((c) => c.device === device.name && c.flops && c.nbytes && c.seconds)
    .map((c) => ({ c, x: c.flops / c.nbytes, y: c.flops / c.seconds }));
  if (!points.length) return panel.replaceChildren(h("p", { class: "hint" }, "No arithmetic was measured."));
  panel.replaceChildren(
    h("h2", {}, "Roofline"),
    facts([["device", device.name], ["peak", `${(device.flops / 1e9).toFixed(0)} GFLOP/s`], ["memory", `${(device.bytes_per_second / 1e9).toFixed(1)} GB/s`]]),
  );
  const tall = 260;
  const xs = [Math.min(...points.map((p) => p.x), 0.1), Math.max(...points.map((p) => p.x), 100)];
  const ys = [Math.min(...points.map((p) => p.y)), Math.max(device.flops, ...points.map((p) => p.y)) * 1.5];
  const on = (value, [least, most], length) => (Math.log(value / least) / Math.log(most / least)) * length;
  let places = [];
  const element = canvas(panel, tall, "roofline", (context, width) => {
    const at = (x, y) => [on(x, xs, width - 20) + 10, tall - 10 - on(Math.max(y, ys[0]), ys, tall - 20)];
    const knee = device.flops / device.bytes_per_second;
    context.strokeStyle = colour("removed");
    context.beginPath();
    context.moveTo(...at(xs[0], xs[0] * device.bytes_per_second));
    if (knee > xs[0] && knee < xs[1]) context.lineTo(...at(knee, device.flops));
    context.lineTo(...at(xs[1], Math.min(device.flops, xs[1] * device.bytes_per_second)));
    context.stroke();
    places = points.map((p) => ({ ...p, at: at(p.x, p.y) }));
    for (const { c, at: [x, y] } of places) {
      context.fillStyle = tinted(c.kind);
      context.strokeStyle = pane.selected !== null && pane.history.items[pane.selected].id === c.node ? colour("accent") : colour("line");
      context.beginPath();
      context.arc(x, y, 4, 0, 7);
      context.fill();
      context.stroke();
    }
  });
  const about = h("p", { class: "hint" }, "Right: more arithmetic a byte; up: faster. Touch a point.");
  element.addEventListener("click", (event) => {
    const far = (p) => Math.hypot(p.at[0] - event.offsetX, p.at[1] - event.offsetY);
    const found = [...places].sort((a, b) => far(a) - far(b))[0];
    if (far(found) < 14)
      about.replaceChildren(link(found.c.node, go), ` ${(found.y / 1e9).toFixed(1)} GFLOP/s at ${found.x.toFixed(1)} a byte`);
  });
  panel.append(about, h("p", { class: "hint" }, WINOGRAD));
}
