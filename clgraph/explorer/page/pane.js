/* A pane: one program after one pass on a canvas that is panned, zoomed and clicked. */

const SLICE = 40;
const ZOOM = { least: 0.02, most: 2.5 };

class Pane {
  /** Show *history* on *element*, a canvas; *listener* is told (pane) about choices and movements. */
  constructor(element, history, listener) {
    this.canvas = element;
    this.listener = listener;
    this.ghosts = false;
    this.tidy = false;
    this.mode = "changes";
    this.view = { scale: 1, x: 0, y: 0 };
    this.drawing = new Drawing(this);
    this.show(history, history.steps.length - 1);
    this.listen();
  }

  /** Show another program, or another step of this one; *since* is the step that it is compared with. */
  show(history, step, since = step - 1) {
    if (history !== this.history) {
      this.history = history;
      this.scopes = new Scopes(history);
      this.selected = null;
      this.marks = null;
      this.step = step;
      this.since = since;
      this.colour(this.mode);
      this.arrange(true);
    }
    this.step = step;
    this.since = since;
    this.marks = this.boxEdges = null;
    if (this.tidy) this.arrange();
    this.redraw();
  }

  colour(mode) {
    this.mode = mode;
    this.colours = new Colours(this.history, mode);
    this.redraw();
  }

  /** Lay out what is not hidden in collapsed scopes; the first part at once, the others while the page stays usable. */
  arrange(anew = false) {
    const layout = (this.layout = new Layout(this.history, this.scopes, this.tidy ? this.step : null));
    this.boxEdges = this.marks = null;
    const go = (slice) => {
      if (this.layout !== layout) return;
      const done = layout.advance(slice);
      this.redraw();
      if (!done) setTimeout(() => go(SLICE), 0);
      else this.listener.arranged?.(this);
    };
    go(0);
    if (anew) this.fit();
  }

  /** Edges between boxes at the step, each pair once. */
  edges() {
    if (!this.boxEdges) {
      const { boxOf } = this.layout, count = this.layout.boxes.length, pairs = new Set();
      for (const [from, to] of this.history.edges(this.step))
        if (boxOf[from] !== boxOf[to] && boxOf[from] !== undefined && boxOf[to] !== undefined) pairs.add(boxOf[from] * count + boxOf[to]);
      this.boxEdges = [...pairs].map((key) => [Math.floor(key / count), key % count]);
    }
    return this.boxEdges;
  }

  /** "added", "altered", "removed" or null: what the step did to a box, an alteration of memory alone aside. */
  markOf(box) {
    if (!this.marks) {
      const { added, removed, altered } = this.history.changes(this.step, this.since);
      this.marks = new Map();
      for (const [at, words] of altered) if (words.some((word) => word !== "memory")) this.marks.set(at, "altered");
      for (const at of added) this.marks.set(at, "added");
      for (const at of removed) this.marks.set(at, "removed");
    }
    const found = new Set(box.members.map((at) => this.marks.get(at)).filter(Boolean));
    return found.size > 1 ? "altered" : ([...found][0] ?? null);
  }

  size() {
    return { width: this.canvas.clientWidth, height: this.canvas.clientHeight };
  }

  redraw() {
    if (this.pending) return;
    this.pending = requestAnimationFrame(() => {
      this.pending = null;
      const { width, height } = this.size(), sharp = window.devicePixelRatio || 1;
      if (this.canvas.width !== Math.round(width * sharp)) this.canvas.width = Math.round(width * sharp);
      if (this.canvas.height !== Math.round(height * sharp)) this.canvas.height = Math.round(height * sharp);
      this.drawing.draw();
      this.drawn = performance.now();
    });
  }

  /** Show the top of the graph in a size that can be read; the whole of it where *whole*. */
  fit(whole = false) {
    const { width, height } = this.size();
    const there = (box) => box.x !== undefined && box.members.some((at) => this.history.state(this.step, at));
    const boxes = this.layout.boxes.filter(there);
    const [left, right] = [Math.min, Math.max].map((of) => of(...boxes.map((b) => b.x)));
    const top = Math.min(...boxes.map((b) => b.y)), tall = Math.max(...boxes.map((b) => b.y)) - top;
    const wide = right - left + BOX.width + 40;
    const scale = whole ? Math.min(width / wide, height / (tall + 3 * BOX.height)) : Math.min(1, width / wide);
    this.view.scale = Math.max(whole ? ZOOM.least : READABLE, Math.min(ZOOM.most, scale));
    this.view.x = width / 2 - ((wide - BOX.width - 40 > width / READABLE ? boxes[0].x : (left + right) / 2) * this.view.scale);
    this.view.y = (1.2 * BOX.height - top) * this.view.scale;
    this.redraw();
  }

  zoom(factor, x, y) {
    const scale = Math.max(ZOOM.least, Math.min(ZOOM.most, this.view.scale * factor));
    this.view.x = x - ((x - this.view.x) * scale) / this.view.scale;
    this.view.y = y - ((y - this.view.y) * scale) / this.view.scale;
    this.view.scale = scale;
    this.moved();
  }

  pan(dx, dy) {
    this.view.x += dx;
    this.view.y += dy;
    this.moved();
  }

  moved() {
    this.redraw();
    this.listener.moved?.(this);
  }

  /** Choose the item at a position, or none, and where *bring*, bring it into the middle of the view. */
  select(at, bring = false) {
    this.selected = at;
    if (at !== null && bring && this.scopes.reveal(at)) this.arrange();
    if (at !== null && bring) {
      this.layout.advance(Infinity);
      const box = this.layout.boxes[this.layout.boxOf[at]], { width, height } = this.size();
      if (!box) return;
      this.view.scale = Math.max(this.view.scale, 0.7);
      this.view.x = width / 2 - box.x * this.view.scale;
      this.view.y = height / 2 - box.y * this.view.scale;
    }
    this.moved();
    this.listener.chosen?.(this);
  }

  boxAt(clientX, clientY) {
    const bounds = this.canvas.getBoundingClientRect();
    const x = (clientX - bounds.left - this.view.x) / this.view.scale;
    const y = (clientY - bounds.top - this.view.y) / this.view.scale;
    return this.layout.boxes.find((b) => Math.abs(b.x - x) <= BOX.width / 2 && Math.abs(b.y - y) <= BOX.height / 2);
  }

  toggle(box) {
    if (box.scope !== null) this.scopes.open(box.scope);
    else if (this.scopes.paths[box.members[0]].length) this.scopes.close(this.scopes.paths[box.members[0]].join("/"));
    else return;
    this.arrange();
  }

  /** The item that the arrow key goes to from the chosen one: along an edge, or beside it. */
  neighbour(key) {
    if (this.selected === null) return this.history.first;
    const here = this.layout.boxOf[this.selected], { boxes } = this.layout, box = boxes[here];
    if (!box) return this.history.first;
    const linked = this.edges().flatMap(([from, to]) =>
      key === "ArrowDown" && from === here ? [to] : key === "ArrowUp" && to === here ? [from] : [],
    );
    const side = key === "ArrowRight" ? 1 : -1;
    const beside = boxes.map((_, i) => i).filter((i) => Math.abs(boxes[i].y - box.y) < BOX.height && (boxes[i].x - box.x) * side > 0);
    const found = key === "ArrowDown" || key === "ArrowUp" ? linked : beside;
    const distance = (i) => Math.hypot(boxes[i].x - box.x, boxes[i].y - box.y);
    const nearest = found.sort((a, b) => distance(a) - distance(b))[0];
    return nearest === undefined ? this.selected : boxes[nearest].members[0];
  }

  listen() {
    const pointers = new Map();
    let travelled = 0;
    const apart = () => {
      const [a, b] = [...pointers.values()];
      return Math.hypot(a.x - b.x, a.y - b.y);
    };
    const on = (name, act) => this.canvas.addEventListener(name, act);
    on("wheel", (event) => {
      event.preventDefault();
      const bounds = this.canvas.getBoundingClientRect();
      if (event.shiftKey) this.pan(-event.deltaY - event.deltaX, 0);
      else this.zoom(Math.exp(-event.deltaY / 400), event.clientX - bounds.left, event.clientY - bounds.top);
    });
    on("pointerdown", (event) => {
      this.canvas.setPointerCapture(event.pointerId);
      pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
      travelled = pointers.size > 1 ? Infinity : 0;
    });
    on("pointermove", (event) => {
      const last = pointers.get(event.pointerId);
      if (!last) return;
      const before = pointers.size === 2 ? apart() : 0;
      travelled += Math.hypot(event.clientX - last.x, event.clientY - last.y);
      const [dx, dy] = [event.clientX - last.x, event.clientY - last.y];
      pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
      if (pointers.size === 1) return this.pan(dx, dy);
      const bounds = this.canvas.getBoundingClientRect(), [a, b] = [...pointers.values()];
      this.zoom(apart() / before, (a.x + b.x) / 2 - bounds.left, (a.y + b.y) / 2 - bounds.top);
    });
    for (const name of ["pointerup", "pointercancel"])
      on(name, (event) => {
        pointers.delete(event.pointerId);
        if (name === "pointerup" && travelled < 6) this.select(this.boxAt(event.clientX, event.clientY)?.members[0] ?? null);
      });
    on("dblclick", (event) => {
      const box = this.boxAt(event.clientX, event.clientY);
      if (box) this.toggle(box);
    });
    new ResizeObserver(() => this.redraw()).observe(this.canvas);
  }
}
