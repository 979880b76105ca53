/* Arithmetic a second over arithmetic a byte, beside what the device allows; both axes are logarithmic. */

const WINOGRAD =
  "Winograd's method computes a convolution with fewer multiplications than counted here, those of the plain sum: " +
  "such a kernel may stand above the roofline.";

/** The powers of ten from the least to the most of a range. */
function decades([least, most]) {
  const first = Math.ceil(Math.log10(least) - 1e-9), last = Math.floor(Math.log10(most) + 1e-9);
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => 10 ** (first + i));
}

/** A number of a scale of powers of ten, as short as it can be written. */
const power = (value) => (value >= 0.01 && value < 1e5 ? String(Number(value.toPrecision(1))) : `1e${Math.round(Math.log10(value))}`);

/** Draw the axes of the roofline with [value, place] pairs of each: FLOP a byte to the right, FLOP/s upwards. */
function axes(context, width, tall, edge, across, up) {
  const bottom = tall - edge.bottom, right = width - edge.right;
  context.strokeStyle = colour("border");
  context.fillStyle = colour("quiet");
  context.font = "11px system-ui, sans-serif";
  context.beginPath();
  for (const [, x] of across) (context.moveTo(x, edge.top), context.lineTo(x, bottom + 3));
  for (const [, y] of up) (context.moveTo(edge.left - 3, y), context.lineTo(right, y));
  context.stroke();
  context.textAlign = "center";
  for (const [value, x] of across) context.fillText(power(value), x, bottom + 14);
  context.fillText("FLOP a byte", (edge.left + right) / 2, tall - 4);
  context.textAlign = "right";
  for (const [value, y] of up) context.fillText(power(value / 1e9), edge.left - 6, y + 4);
  context.save();
  context.translate(10, (edge.top + bottom) / 2);
  context.rotate(-Math.PI / 2);
  context.textAlign = "center";
  context.fillText("GFLOP/s", 0, 0);
  context.restore();
}

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
  const tall = 280, edge = { left: 44, right: 10, top: 10, bottom: 34 };
  const xs = [Math.min(...points.map((p) => p.x), 0.1), Math.max(...points.map((p) => p.x), 100)];
  const ys = [Math.min(...points.map((p) => p.y)), Math.max(device.flops, ...points.map((p) => p.y)) * 1.5];
  const on = (value, [least, most], length) => (Math.log(value / least) / Math.log(most / least)) * length;
  let places = [];
  const element = canvas(panel, tall, "roofline", (context, width) => {
    const across = width - edge.left - edge.right, down = tall - edge.top - edge.bottom;
    const at = (x, y) => [edge.left + on(x, xs, across), tall - edge.bottom - on(Math.max(y, ys[0]), ys, down)];
    axes(context, width, tall, edge, decades(xs).map((x) => [x, at(x, ys[0])[0]]), decades(ys).map((y) => [y, at(xs[0], y)[1]]));
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
