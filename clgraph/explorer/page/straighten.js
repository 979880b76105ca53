/* Straightens a part: keeps the rows and their order, and moves boxes sideways towards those they are joined with.
 *
 * A row's best places are a weighted isotonic regression, by the pool adjacent violators algorithm (Barlow et al.,
 * Statistical Inference under Order Restrictions, 1972): an edge that lasts through most passes pulls hardest.
 */

const SWEEPS = 30;

/** Move what is in *rows*, arrays of {x, wide, links: [{to, weight}]} in order, and leave *gap* between neighbours. */
function straighten(rows, gap) {
  const offsets = rows.map((row) => {
    let at = 0;
    return row.map((box, i) => (at += i ? (row[i - 1].wide + box.wide) / 2 + gap : 0));
  });
  const order = rows.map((_, i) => i);
  for (let sweep = 0; sweep < SWEEPS; sweep++)
    for (const r of sweep % 2 ? order.toReversed() : order) {
      const wanted = rows[r].map((box, i) => {
        const weight = box.links.reduce((sum, link) => sum + link.weight, 0);
        const x = weight ? box.links.reduce((sum, link) => sum + link.weight * link.to.x, 0) / weight : box.x;
        return { x: x - offsets[r][i], weight: weight || 0.01 };
      });
      spread(wanted).forEach((x, i) => (rows[r][i].x = x + offsets[r][i]));
    }
}

/** Return the nondecreasing places nearest to the wanted ones. */
function spread(wanted) {
  const blocks = [];
  for (const { x, weight } of wanted) {
    blocks.push({ x, weight, count: 1 });
    while (blocks.length > 1 && blocks.at(-2).x > blocks.at(-1).x) {
      const last = blocks.pop(), into = blocks.at(-1);
      into.x = (into.x * into.weight + last.x * last.weight) / (into.weight + last.weight);
      into.weight += last.weight;
      into.count += last.count;
    }
  }
  return blocks.flatMap((block) => new Array(block.count).fill(block.x));
}
