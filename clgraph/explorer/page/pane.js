/* A pane: one program after one pass on a canvas that is panned, zoomed and clicked. */

const SLICE = 40;
const LEGIBLE = 0.6;
const ZOOM = { least: 0.02, most: 2.5 };

class Pane {
  /** Draw on *element*, a canvas; *listener* is told (pane) about choices and movements. */
  constructor(element, listener) {
    this.canvas = element;
    this.listener = listener;
    this.ghosts = false;
    this.mode = "changes";
    this.view = { scale: 1, x: 0, y: 0 };
    this.drawing = new Drawing(this);
    this.overview = new Overview(this);
    this.listen();
  }

  /** Show a program after a step from the top, laid out for that step alone. */
  open(history, step) {
    if (history !== this.history) {
      this.history = history;
      this.scopes = new Scopes(history);
      this.kept = null;
      this.selected = null;
    }
    this.tidy = true;
    this.step = step;
    this.since = step - 1;
    this.colour(this.mode);
    this.arrange();
    this.fit();
  }

  /** Show another step, every node where it is in all of them; *since* is the step that it is compared with. */
  show(step, since = step - 1) {
    if (step !== this.step) this.arrangeFor(false);
    this.step = step;
    this.since = since;
    this.marks = this.boxEdges = null;
    this.redraw();
  }

  colour(mode) {
    this.mode = mode;
    this.colours = new Colours(this.history, mode);
    this.redraw();
  }

  /** Lay out what is not hidden in collapsed scopes; the first part at once, the others while the page stays usable. */
  arrange() {
    const layout = (this.layout = this.tidy ? new Layout(this.history, this.scopes, this.step) : this.everyPlace());
    this.boxEdges = this.marks = null;
    const go = (slice) => {
      if (this.layout !== layout) return;
      const places = layout.done < layout.parts.length ? layout : this.everyPlace();
      const done = places.advance(slice);
      this.redraw();
      if (!done || places === layout) setTimeout(() => go(SLICE), 0);
    };
    go(0);
  }

  /** The layout of all steps, in which a node keeps its place. */
  everyPlace() {
    return (this.kept ??= new Layout(this.history, this.scopes));
  }

  /** Lay out the step alone where *tidy*, else all steps; what is in the middle of the view, or chosen, stays there. */
  arrangeFor(tidy) {
    if (this.tidy === tidy) return;
    const { layout: before } = this, from = this.middle(), at = from?.members.find((member) => this.history.state(this.step, member));
    this.tidy = tidy;
    this.arrange();
    if (at === undefined) return this.fit();
    this.layout.advance(Infinity);
    const { x, y } = before.boxes[before.boxOf[at]], to = this.layout.boxes[this.layout.boxOf[at]];
    this.pan((x - to.x) * this.view.scale, (y - to.y) * this.view.scale);
  }

  /** The box that is chosen, where it is seen, else the one nearest to the middle of the view. */
  middle() {
    const { width, height } = this.size(), { scale } = this.view;
    const x = (width / 2 - this.view.x) / scale, y = (height / 2 - this.view.y) / scale;
    const far = (box) => Math.max(Math.abs(box.x - x) / width, Math.abs(box.y - y) / height);
    const chosen = this.selected === null ? null : this.layout.boxes[this.layout.boxOf[this.selected]];
    const present = this.present();
    if (present.includes(chosen) && far(chosen) * scale < 0.5) return chosen;
    return present.reduce((best, box) => (!best || far(box) < far(best) ? box : best), null);
  }

  /** The boxes that have a place and stand for something that is there after the step. */
  present() {
    return this.layout.boxes.filter((box) => box.x !== undefined && box.members.some((at) => this.history.state(this.step, at)));
  }

  /** The rectangle around what is there, null where nothing is. */
  extent() {
    const boxes = this.present();
    if (!boxes.length) return null;
    const [left, top] = ["x", "y"].map((axis) => Math.min(...boxes.map((b) => b[axis])));
    const [right, bottom] = ["x", "y"].map((axis) => Math.max(...boxes.map((b) => b[axis])));
    return { left: left - BOX.width / 2, right: right + BOX.width / 2, top: top - BOX.height / 2, bottom: bottom + BOX.height / 2 };
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

  /** Show the whole graph where *whole* or it can be read so, else its top, as wide as can be read. */
  fit(whole = false) {
    const { width, height } = this.size(), extent = this.extent();
    if (!extent) return;
    const { left, top, right, bottom } = extent, wide = right - left + 40, tall = bottom - top + 40;
    const all = Math.min(1, width / wide, height / tall), seen = whole || all >= LEGIBLE;
    const room = seen ? width : width - Overview.room(width);
    const scale = seen ? Math.max(ZOOM.least, all) : Math.max(READABLE, Math.min(1, room / wide));
    this.view.scale = scale;
    this.view.x = room / 2 - (wide * scale > room && !seen ? this.present()[0].x : (left + right) / 2) * scale;
    this.view.y = (20 - top) * scale;
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
    if (at !== null && bring && this.scopes.reveal(at)) this.regroup();
    if (at !== null && bring) {
      if (this.layout.boxOf[at] === undefined) this.arrangeFor(false);
      this.layout.advance(Infinity);
      const box = this.layout.boxes[this.layout.boxOf[at]], { width, height } = this.size();
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
    this.regroup();
  }

  /** Lay out again after scopes were opened or closed. */
  regroup() {
    this.kept = null;
    this.arrange();
  }

  /** The item that the arrow key goes to from the chosen one: along an edge, or beside it. */
  neighbour(key) {
    const first = this.present()[0]?.members[0] ?? null;
    if (this.selected === null) return first;
    const here = this.layout.boxOf[this.selected], { boxes } = this.layout, box = boxes[here];
    if (!box) return first;
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
    let travelled = 0, overview = false;
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
      overview = pointers.size === 1 && this.overview.holds(event.offsetX);
      if (overview) this.overview.bring(event.offsetX, event.offsetY);
    });
    on("pointermove", (event) => {
      const last = pointers.get(event.pointerId);
      if (!last) return;
      const before = pointers.size === 2 ? apart() : 0;
      travelled += Math.hypot(event.clientX - last.x, event.clientY - last.y);
      const [dx, dy] = [event.clientX - last.x, event.clientY - last.y];
      pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
      if (overview) return this.overview.bring(event.offsetX, event.offsetY);
      if (pointers.size === 1) return this.pan(dx, dy);
      const bounds = this.canvas.getBoundingClientRect(), [a, b] = [...pointers.values()];
      this.zoom(apart() / before, (a.x + b.x) / 2 - bounds.left, (a.y + b.y) / 2 - bounds.top);
    });
    for (const name of ["pointerup", "pointercancel"])
      on(name, (event) => {
        pointers.delete(event.pointerId);
        if (name === "pointerup" && travelled < 6 && !overview) this.select(this.boxAt(event.clientX, event.clientY)?.members[0] ?? null);
      });
    on("dblclick", (event) => {
      if (overview) return;
      const box = this.boxAt(event.clientX, event.clientY);
      if (box) this.toggle(box);
    });
    new ResizeObserver(() => this.redraw()).observe(this.canvas);
  }
}
