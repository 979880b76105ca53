/* The arenas over the execution order: a rectangle a buffer, offset upwards. */

function memoryPanel(panel, pane, go) {
  const { memory } = pane.history.graph;
  if (!memory) return panel.replaceChildren(h("p", { class: "hint" }, "The memory of this program is not known."));
  panel.replaceChildren(facts([["constants", bytes(memory.constants)]]));
  for (const arena of memory.arenas) {
    panel.append(
      h("h2", {}, arena.placement),
      facts([["arena", bytes(arena.nbytes)], ["at least", bytes(arena.lower_bound)], ["without sharing", bytes(arena.unshared)]]),
    );
    const about = h("p", { class: "hint" }, "Touch a buffer: execution order goes to the right, offsets upwards.");
    let shapes = [];
    const element = canvas(panel, 260, `memory of ${arena.placement} over time`, (context, width) => {
      shapes = arena.buffers.map((buffer) => rectangleOf(buffer, arena, memory.nodes.length, width, 260));
      for (const { buffer, x, y, w, tall } of shapes) {
        context.fillStyle = tinted(buffer.kind);
        context.fillRect(x, y, w, tall);
        context.strokeStyle = buffer.values.includes(chosenValue(pane)) ? colour("accent") : colour("line");
        context.lineWidth = buffer.values.includes(chosenValue(pane)) ? 3 : 0.5;
        context.strokeRect(x, y, w, tall);
      }
      const bound = 260 * (1 - arena.lower_bound / Math.max(1, arena.nbytes));
      context.setLineDash([6, 4]);
      context.strokeStyle = colour("removed");
      context.strokeRect(0, bound, width, 0);
    });
    element.addEventListener("click", (event) => {
      const found = shapes.find(({ x, y, w, tall }) => event.offsetX >= x && event.offsetX <= x + w && event.offsetY >= y && event.offsetY <= y + tall);
      if (found) about.replaceChildren(...aboutBuffer(found.buffer, memory, go));
    });
    panel.append(about, largest(arena, memory, go));
  }
}

const chosenValue = (pane) => (pane.selected === null ? null : pane.history.anyState(pane.step, pane.selected).outputs?.[0]?.[0]);

function rectangleOf(buffer, arena, steps, width, height) {
  const columns = steps + 2, total = Math.max(1, arena.nbytes);
  const x = ((buffer.first + 1) / columns) * width, end = ((Math.min(buffer.last, steps) + 2) / columns) * width;
  const tall = (buffer.nbytes / total) * height;
  return { buffer, x, y: height - (buffer.offset / total) * height - tall, w: Math.max(1, end - x), tall };
}

const nodeAt = (memory, position) => memory.nodes[position] ?? (position < 0 ? "the inputs" : "the outputs");

function aboutBuffer(buffer, memory, go) {
  const from = nodeAt(memory, buffer.first);
  return [
    `${buffer.name}: ${bytes(buffer.nbytes)} at ${buffer.offset}, from `,
    memory.nodes[buffer.first] ? link(from, go) : from,
    ` to ${nodeAt(memory, buffer.last)}`,
    buffer.values.length > 1 ? `; shared by ${buffer.values.join(", ")}` : "",
  ];
}

function largest(arena, memory, go) {
  const rows = [...arena.buffers].sort((a, b) => b.nbytes - a.nbytes).slice(0, 12);
  const name = (b) => (memory.nodes[b.first] ? h("button", { class: "link", click: () => go(memory.nodes[b.first]) }, b.name) : b.name);
  return folded("Largest buffers", true, table(["buffer", "bytes", "values"], rows.map((b) => [name(b), bytes(b.nbytes), b.values.length])));
}
