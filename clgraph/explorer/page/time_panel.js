/* The timeline of a profiled run, and the slowest commands. */

function timePanel(panel, pane, go) {
  const { profile, device } = pane.history.graph;
  if (!profile) return panel.replaceChildren(h("p", { class: "hint" }, "The model was not run: the page was made with --no-run."));
  const { commands, total } = profile;
  const sum = commands.reduce((seconds, c) => seconds + c.seconds, 0);
  panel.replaceChildren(
    facts([["commands", `${micro(sum)} us`], ["whole run", `${micro(total)} us, waiting for each launch`], ["workers", device.workers]]),
  );
  const lanes = [...new Set(commands.map((c) => c.device))], head = lanes.length > 1 ? 15 : 0, row = 34 + head;
  const end = Math.max(...commands.map((c) => c.start + c.seconds), 1e-9);
  const about = h("p", { class: "hint" }, "Touch a command. The upper part of one is work, the lower workers without any.");
  const bars = commands.map((c) => ({ c, from: c.start / end, wide: c.seconds / end, lane: lanes.indexOf(c.device) }));
  const element = canvas(panel, row * lanes.length + 4, "timeline", (context, width) => {
    for (const { c, from, wide, lane } of bars) {
      const idle = c.seconds ? Math.min(1, c.idle / c.seconds) : 0, top = lane * row + head + 2, tall = row - head - 6;
      context.fillStyle = tinted(c.kind);
      context.fillRect(from * width, top, Math.max(1, wide * width), tall * (1 - idle));
      context.fillStyle = colour("border");
      context.fillRect(from * width, top + tall * (1 - idle), Math.max(1, wide * width), tall * idle);
    }
    context.fillStyle = colour("text");
    context.font = "11px system-ui, sans-serif";
    if (head) lanes.forEach((device, lane) => context.fillText(device, 0, lane * row + 12));
  });
  element.addEventListener("click", (event) => {
    const at = event.offsetX / element.clientWidth, lane = Math.floor(event.offsetY / row);
    const found = bars.find((b) => b.lane === lane && at >= b.from && at <= b.from + Math.max(b.wide, 2 / element.clientWidth));
    if (found) about.replaceChildren(link(found.c.node, go), ` ${found.c.kernel}: ${micro(found.c.seconds)} us, ${found.c.tickets} tickets, idle ${micro(found.c.idle)} us a worker`);
  });
  const slowest = [...commands].sort((a, b) => b.seconds - a.seconds).slice(0, 40);
  panel.append(
    about,
    table(
      ["node", "kernel", "us", "%", "idle us", "% of roofline"],
      slowest.map((c) => [
        link(c.node, go),
        c.kernel,
        micro(c.seconds),
        ((100 * c.seconds) / sum).toFixed(1),
        c.idle ? micro(c.idle) : "",
        c.seconds && c.roofline ? ((100 * c.roofline) / c.seconds).toFixed(0) : "",
      ]),
    ),
  );
}
