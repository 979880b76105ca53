/* Colours of nodes, and the legends that explain them. */

const MODES = {
  changes: "changes",
  kind: "operator",
  device: "device",
  format: "memory format",
  kernel: "kernel",
  time: "measured time",
  roofline: "share of the roofline",
};

/** A hue of its own for every text, the same on every page. */
function hueOf(text) {
  let hash = 2166136261;
  for (const c of text) hash = Math.imul(hash ^ c.codePointAt(0), 16777619);
  return (hash >>> 0) % 360;
}

const isDark = () => document.documentElement.dataset.theme === "dark";
const tinted = (text) => `hsl(${hueOf(text)} ${isDark() ? "38% 24%" : "65% 87%"})`;
const heat = (share) => `hsl(${Math.round(210 - 210 * Math.min(1, share))} ${isDark() ? "45% 22%" : "75% 87%"})`;

/** What colours by, for each mode that looks at one state; empty for a node that has no such thing. */
const TEXTS = {
  kind: (state) => state.kind ?? state.type,
  device: (state) => state.placement ?? "",
  format: (state) => partsOf(state.outputs?.[0]?.[1]).format,
  kernel: (state) => (state.kernel ?? "").replace(/ \(.*/, ""),
};

class Colours {
  constructor(history, mode) {
    this.history = history;
    this.mode = mode;
    this.times = new Map();
    this.roofs = new Map();
    for (const c of history.graph.profile?.commands ?? []) {
      this.times.set(c.node, (this.times.get(c.node) ?? 0) + c.seconds);
      if (c.roofline) this.roofs.set(c.node, (this.roofs.get(c.node) ?? 0) + c.roofline);
    }
    this.longest = Math.max(1e-9, ...this.times.values());
  }

  /** The fill of items at a step; null for the ordinary one. */
  fill(step, members) {
    if (this.mode === "time") {
      const seconds = members.reduce((sum, at) => sum + (this.times.get(this.history.items[at].id) ?? 0), 0);
      return seconds ? heat(Math.sqrt(seconds / this.longest)) : null;
    }
    if (this.mode === "roofline") {
      const [seconds, roof] = [this.times, this.roofs].map((by) =>
        members.reduce((sum, at) => sum + (by.get(this.history.items[at].id) ?? 0), 0),
      );
      return seconds && roof ? heat(1 - Math.min(1, roof / seconds)) : null;
    }
    if (this.mode === "changes") return null;
    const texts = new Set(members.map((at) => TEXTS[this.mode](this.history.state(step, at) ?? {})).filter(Boolean));
    return texts.size === 1 ? tinted([...texts][0]) : null;
  }

  /** [text, colour] pairs that explain the fills of a step. */
  legend(step) {
    if (this.mode === "time" && !this.times.size) return [];
    if (this.mode === "roofline" && !this.roofs.size) return [];
    if (this.mode === "time") return [["0", heat(0)], [`${micro(this.longest)} us`, heat(1)]];
    if (this.mode === "roofline") return [["at the roofline", heat(0)], ["far below it", heat(1)]];
    if (this.mode === "changes")
      return [["new", "var(--added)"], ["changed", "var(--altered)"], ["gone", "var(--removed)"]];
    const count = new Map();
    this.history.items.forEach((_, at) => {
      const text = TEXTS[this.mode](this.history.state(step, at) ?? {});
      if (text) count.set(text, (count.get(text) ?? 0) + 1);
    });
    return [...count].sort((a, b) => b[1] - a[1]).slice(0, 12).map(([text, n]) => [`${text} (${n})`, tinted(text)]);
  }
}

const micro = (seconds) => (seconds * 1e6).toFixed(seconds < 1e-4 ? 1 : 0);
