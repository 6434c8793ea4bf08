// A chart with a table behind it. Colours are read from the style sheet, so a change of light and dark redraws it.

import { el, fill, refresh, table } from "./dom.js";
import { number } from "./format.js";

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const HEIGHT = 220;
const MOST_ROWS = 200;
const DAY = 86400;
const FEW = 40; // points that are shown as points, too: a line through one is not to be seen

// Times are UTC, as everywhere else.
const utc = (seconds, from, to) => new Date(1000 * seconds).toISOString().slice(from, to).replace("T", " ");
const clock = (_plot, ticks, _axis, _space, apart) => ticks.map((tick) => (apart >= DAY ? utc(tick, 5, 10) : utc(tick, 11, apart < 60 ? 19 : 16)));

// Around all points; a single one is in the middle, a minute of time or one of its own size around it.
function range(isTime) {
  return (_, low, high) => {
    if (!Number.isFinite(low) || !Number.isFinite(high)) return [0, 1];
    const room = high > low ? 0.02 * (high - low) : isTime ? 30 : Math.abs(low) || 1;
    return [low - room, high + room];
  };
}

export class Chart {
  // `series`: [{label, colour, points, dash}], `bands`: [[upper, lower]] by number of series, `x`: {label, time}.
  constructor(name, { series, bands = [], x = {}, marks = null, size = HEIGHT }) {
    this.name = name;
    this.options = { series, bands, x, size };
    this.marks = marks;
    this.data = null;
    this.plot = null;
    this.place = el("div", { class: "chart", role: "img", "aria-label": `Chart: ${name}. The table below has its numbers.` });
    this.marked = el("p", { class: "why" });
    this.behind = el("div");
    this.details = el("details", { ontoggle: () => this.details.open && this.tell() },
      el("summary", {}, `Table: ${name}`), this.behind);
    this.root = el("div", {}, el("p", { class: "chart-name" }, name), this.place, this.marked, this.details);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    new ResizeObserver(() => this.resize()).observe(this.place);
  }

  // `data`: [x, ...series], each a list with null where nothing is known.
  set(data, marks = this.marks) {
    this.data = data;
    this.marks = marks;
    const same = this.plot && this.plot.series.length === data.length && this.few === (data[0].length < FEW);
    this.few = data[0].length < FEW;
    refresh(this.marked, (marks ?? []).map(({ x, text }) => `${text} at ${this.at(x)}`).join(", "));
    if (same) this.plot.setData(this.padded());
    else this.draw();
    if (this.details.open) this.tell();
  }

  resize() {
    const width = this.place.clientWidth;
    if (!this.plot) this.draw();
    else if (width > 0 && Math.abs(width - this.plot.width) > 1) this.plot.setSize({ width, height: this.options.size });
  }

  draw() {
    if (!this.data || this.place.clientWidth === 0) return;
    this.plot?.destroy();
    const axis = { stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") } };
    const { series, bands, x, size } = this.options;
    this.plot = new uPlot({
      width: this.place.clientWidth, height: size, cursor: { drag: { x: false, y: false } },
      tzDate: (seconds) => uPlot.tzDate(new Date(1000 * seconds), "Etc/UTC"),
      scales: { x: { time: Boolean(x.time), range: range(x.time) } },
      axes: [{ ...axis, label: x.label, labelSize: x.label ? 18 : undefined, ...(x.time ? { values: clock } : {}) },
        { ...axis, size: 64, values: (_, ticks) => ticks.map((tick) => number(tick, 5)) }],
      series: [{ label: this.axis(), value: (_, value) => (value === null ? "–" : this.at(value)) }, ...series.map((each) => ({
        label: each.label, stroke: colour(each.colour || "--blue"), width: each.points ? 0 : each.width ?? 2,
        dash: each.dash, points: { show: each.points || (!each.dash && this.data[0].length < FEW), size: 5, fill: colour(each.colour || "--blue") },
        value: (_, value) => number(value), spanGaps: false,
      }))],
      bands: bands.map((pair) => ({ series: pair, fill: colour("--band") })),
      hooks: { draw: [(plot) => this.mark(plot)] },
    }, this.padded(), this.place);
  }

  // uPlot gives a single time a scale of years, so that it gets neighbours without values.
  padded() {
    const [x, ...columns] = this.data;
    if (x.length !== 1 || !this.options.x.time) return this.data;
    return [[x[0] - 30, x[0], x[0] + 30], ...columns.map((column) => [null, column[0], null])];
  }

  axis() { return this.options.x.label || (this.options.x.time ? "time (UTC)" : "x"); }

  at(x) { return this.options.x.time ? utc(x, 0, 19) : number(x); }

  // Vertical lines at some x, each with a word.
  mark(plot) {
    if (!this.marks?.length) return;
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = colour("--fail");
    ctx.setLineDash([4, 4]);
    ctx.font = `${12 * devicePixelRatio}px system-ui`;
    for (const { x, text } of this.marks) {
      const at = plot.valToPos(x, "x", true);
      if (at < bbox.left || at > bbox.left + bbox.width) continue;
      ctx.beginPath();
      ctx.moveTo(at, bbox.top);
      ctx.lineTo(at, bbox.top + bbox.height);
      ctx.stroke();
      ctx.fillText(text, at + 4, bbox.top + 14 * devicePixelRatio);
    }
    ctx.restore();
  }

  // The numbers, newest first.
  tell() {
    const [x, ...columns] = this.data ?? [[]];
    const shown = x.map((_, i) => i).reverse().slice(0, MOST_ROWS);
    const heads = [this.axis(), ...this.options.series.map((each) => each.label)];
    fill(this.behind, table(heads, shown.map((i) => [this.at(x[i]), ...columns.map((column) => number(column[i]))]),
      { caption: `${this.name}${x.length > MOST_ROWS ? ` (the last ${MOST_ROWS} of ${x.length})` : ""}`, numbers: heads.map((_, i) => i).slice(1) }));
  }
}
