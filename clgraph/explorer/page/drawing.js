/* Draws the boxes and edges of a pane on its canvas; what is outside it or too small to read is left out. */

const READABLE = 0.45;
const MARKS = { added: "added", altered: "altered", removed: "removed" };

class Drawing {
  constructor(pane) {
    this.pane = pane;
    this.context = pane.canvas.getContext("2d");
  }

  draw() {
    const { pane, context } = this, { width, height } = pane.size(), sharp = window.devicePixelRatio || 1;
    context.setTransform(sharp, 0, 0, sharp, 0, 0);
    context.fillStyle = colour("canvas");
    context.fillRect(0, 0, width, height);
    const { scale, x, y } = pane.view;
    context.setTransform(sharp * scale, 0, 0, sharp * scale, sharp * x, sharp * y);
    this.seen = { left: -x / scale, top: -y / scale, right: (width - x) / scale, bottom: (height - y) / scale };
    this.detailed = scale >= READABLE;
    this.colours = Object.fromEntries(["line", "text", "quiet", "node", "accent", ...Object.values(MARKS)].map((n) => [n, colour(n)]));
    this.edges();
    pane.layout.boxes.forEach((box, at) => this.box(box, at));
    context.setTransform(sharp, 0, 0, sharp, 0, 0);
    pane.overview.draw(context, this.colours);
  }

  isSeen(left, top, right, bottom) {
    const { seen } = this;
    return right >= seen.left && left <= seen.right && bottom >= seen.top && top <= seen.bottom;
  }

  edges() {
    const { pane, context } = this, { boxes, boxOf, ways } = pane.layout;
    const chosen = pane.selected === null ? null : (boxOf[pane.selected] ?? null);
    context.lineWidth = this.detailed ? 1.2 : 1.2 / pane.view.scale / 2;
    for (const strong of [false, true]) {
      context.beginPath();
      for (const [from, to] of pane.edges()) {
        const a = boxes[from], b = boxes[to];
        if (a.x === undefined || b.x === undefined || (chosen === from || chosen === to) !== strong) continue;
        if (!this.isSeen(Math.min(a.x, b.x) - 200, Math.min(a.y, b.y), Math.max(a.x, b.x) + 200, Math.max(a.y, b.y))) continue;
        this.way([{ x: a.x, y: a.y + BOX.height / 2 }, ...(ways.get(from * boxes.length + to) ?? []), { x: b.x, y: b.y - BOX.height / 2 }]);
      }
      context.strokeStyle = strong ? this.colours.accent : this.colours.line;
      context.stroke();
    }
  }

  /** Add an edge through its points to the path. */
  way(points) {
    const { context } = this;
    context.moveTo(points[0].x, points[0].y);
    for (let i = 1; i < points.length; i++) {
      const a = points[i - 1], b = points[i], bend = Math.min(60, Math.abs(b.y - a.y) / 2);
      context.bezierCurveTo(a.x, a.y + bend, b.x, b.y - bend, b.x, b.y);
    }
  }

  box(box, at) {
    if (box.x === undefined) return;
    const { pane, context, colours } = this;
    const left = box.x - BOX.width / 2, top = box.y - BOX.height / 2;
    if (!this.isSeen(left - 4, top - 4, left + BOX.width + 4, top + BOX.height + 4)) return;
    const mark = pane.markOf(box);
    const present = box.members.some((member) => pane.history.state(pane.step, member));
    if (!present && mark !== "removed" && !pane.ghosts) return;
    context.globalAlpha = present ? 1 : mark === "removed" ? 0.85 : 0.25;
    context.beginPath();
    context.roundRect(left, top, BOX.width, BOX.height, box.type === "node" ? 6 : box.type === "scope" ? 2 : 20);
    context.fillStyle = (present && pane.colours.fill(pane.step, box.members)) || colours.node;
    context.fill();
    context.setLineDash(present ? [] : [5, 4]);
    context.lineWidth = (mark ? 3 : 1) / Math.min(1, pane.view.scale);
    context.strokeStyle = mark ? colours[MARKS[mark]] : colours.line;
    context.stroke();
    context.setLineDash([]);
    if (pane.selected !== null && pane.layout.boxOf[pane.selected] === at) {
      context.lineWidth = 3;
      context.strokeStyle = colours.accent;
      context.strokeRect(left - 4, top - 4, BOX.width + 8, BOX.height + 8);
    }
    if (this.detailed) this.label(box, left, top);
    context.globalAlpha = 1;
  }

  label(box, left, top) {
    const { pane, context, colours } = this;
    const state = box.scope === null ? pane.history.anyState(pane.step, box.members[0]) : null;
    const [head, name, foot] = state ? linesOf(state, box) : [`${box.members.filter((at) => pane.history.state(pane.step, at)).length} nodes`, box.label, "double click opens it"];
    context.fillStyle = colours.text;
    context.font = "600 11px system-ui, sans-serif";
    context.fillText(fitting(context, head), left + 8, top + 13);
    context.font = "11px system-ui, sans-serif";
    context.fillText(fitting(context, name, true), left + 8, top + 26);
    context.fillStyle = colours.quiet;
    context.font = "10px system-ui, sans-serif";
    context.fillText(fitting(context, foot), left + 8, top + 38);
  }
}

/** Three lines about a node: operator with what is fused, name, and the layout of its result. */
function linesOf(state, box) {
  if (state.type) return [state.type, box.label, ""];
  const fused = state.fused?.length ? ` +${state.fused.length}` : "";
  const { dtype, format, shape } = partsOf(state.outputs?.[0]?.[1]);
  return [state.kind + fused, box.label, `${dtype} ${shape} ${format}`];
}

/** Text that fits a box; names keep their end, which tells them apart. */
function fitting(context, text, end = false) {
  const room = BOX.width - 16;
  if (context.measureText(text).width <= room) return text;
  const shorter = (n) => (end ? `…${text.slice(-n)}` : `${text.slice(0, n)}…`);
  let least = 0, most = text.length;
  while (least + 1 < most) {
    const middle = (least + most) >> 1;
    if (context.measureText(shorter(middle)).width <= room) least = middle;
    else most = middle;
  }
  return shorter(least);
}
