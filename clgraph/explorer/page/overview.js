/* The strip at the right of a pane that shows the whole graph small, and which part of it is seen. */

const STRIP = { share: 0.16, most: 140, margin: 6, least: 1.5 };

class Overview {
  constructor(pane) {
    this.pane = pane;
  }

  /** The most pixels that the strip takes from the width of the pane. */
  static room(width) {
    return Math.min(STRIP.most, STRIP.share * width);
  }

  /** Where the strip is and how large, in pixels of the pane; null while all of the graph is seen. */
  place() {
    const { pane } = this, { width, height } = pane.size(), extent = pane.extent(), { scale, x, y } = pane.view;
    if (!extent) return null;
    const { left, top, right, bottom } = extent;
    const whole = left * scale + x >= 0 && right * scale + x <= width && top * scale + y >= 0 && bottom * scale + y <= height;
    if (whole) return null;
    const small = Math.min(Overview.room(width) / (right - left), (height - 2 * STRIP.margin) / (bottom - top));
    return { small, x: width - STRIP.margin - right * small, y: STRIP.margin - top * small, left: width - STRIP.margin - (right - left) * small };
  }

  draw(context, colours) {
    const place = this.place();
    if (!place) return;
    const { pane } = this, { width, height } = pane.size(), { small, x, y, left } = place, { scale } = pane.view;
    context.fillStyle = colour("surface");
    context.globalAlpha = 0.9;
    context.fillRect(left - STRIP.margin, 0, width, height);
    context.globalAlpha = 1;
    for (const box of pane.present()) {
      const mark = pane.markOf(box), [wide, tall] = [BOX.width, BOX.height].map((length) => Math.max(STRIP.least, length * small));
      context.fillStyle = mark ? colours[mark] : pane.colours.fill(pane.step, box.members) || colours.line;
      context.fillRect(x + box.x * small - wide / 2, y + box.y * small - tall / 2, wide, tall);
    }
    context.strokeStyle = colours.accent;
    context.lineWidth = 1.5;
    const seen = [x - (pane.view.x / scale) * small, y - (pane.view.y / scale) * small, (width / scale) * small, (height / scale) * small];
    const [from, until] = [Math.max(left - STRIP.margin + 1, seen[0]), Math.min(width - 1, seen[0] + seen[2])];
    context.strokeRect(from, seen[1], Math.max(2, until - from), seen[3]);
  }

  /** Whether a point of the pane is on the strip. */
  holds(x) {
    const place = this.place();
    return place !== null && x >= place.left - STRIP.margin;
  }

  /** Bring what the strip shows at a point into the middle of the pane. */
  bring(x, y) {
    const place = this.place(), { pane } = this, { width, height } = pane.size();
    if (!place) return;
    pane.view.x = width / 2 - ((x - place.x) / place.small) * pane.view.scale;
    pane.view.y = height / 2 - ((y - place.y) / place.small) * pane.view.scale;
    pane.moved();
  }
}
