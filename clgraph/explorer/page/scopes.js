/* Name scopes of a model: groups that are shown as one node while they are collapsed. */

const FEW = 150;

class Scopes {
  /** Sort the items of *history* into scopes, by the ONNX nodes that they stem from. */
  constructor(history) {
    this.paths = history.items.map((item, at) => {
      if (item.type !== "node") return [];
      const name = history.anyState(0, at).origin?.[0] ?? item.id;
      return name.split("/").filter(Boolean).slice(0, -1);
    });
    this.sizes = new Map();
    for (const path of this.paths)
      path.forEach((_, depth) => {
        const scope = path.slice(0, depth + 1).join("/");
        this.sizes.set(scope, (this.sizes.get(scope) ?? 0) + 1);
      });
    this.depth = Math.max(0, ...this.paths.map((path) => path.length));
    this.collapsed = new Set();
    this.collapse(this.fitting());
  }

  /** The largest depth at which few items are seen; more than there is where all are few, or nothing helps. */
  fitting() {
    if (this.paths.length <= 2 * FEW) return this.depth + 1;
    for (let depth = this.depth; depth > 0; depth--) if (this.seenAt(depth) <= FEW) return depth;
    return this.seenAt(1) < this.paths.length / 2 ? 1 : this.depth + 1;
  }

  seenAt(depth) {
    const seen = this.paths.map((path, at) => (path.length >= depth ? path.slice(0, depth).join("/") : at));
    return new Set(seen).size;
  }

  /** Collapse the scopes at *depth*, counted from 1, and those below. */
  collapse(depth) {
    this.collapsed = new Set();
    for (const [scope, size] of this.sizes) if (size > 1 && scope.split("/").length >= depth) this.collapsed.add(scope);
  }

  /** Show what is in *scope*, but keep what is below its parts collapsed. */
  open(scope) {
    this.collapsed.delete(scope);
  }

  close(scope) {
    this.collapsed.add(scope);
  }

  /** Open whatever hides the item at a position; say whether something did. */
  reveal(at) {
    const path = this.paths[at];
    let hidden = false;
    path.forEach((_, depth) => {
      hidden = this.collapsed.delete(path.slice(0, depth + 1).join("/")) || hidden;
    });
    return hidden;
  }

  /** The collapsed scope that an item is hidden in, else null. */
  hiding(at) {
    const path = this.paths[at];
    for (let depth = 1; depth <= path.length; depth++) {
      const scope = path.slice(0, depth).join("/");
      if (this.collapsed.has(scope)) return scope;
    }
    return null;
  }
}
