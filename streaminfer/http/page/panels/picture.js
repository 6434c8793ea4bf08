import { el, refresh, section, table } from "../dom.js";
import { Chart } from "../chart.js";
import { number } from "../format.js";
import { byCoordinate, newest } from "../values.js";

const SHOWN = 25;
const SMALL = 0.1; // posterior sds: an interval that is off by less still holds 95%
const HALF_WIDTH = 1.959963984540054;

// How far each mean is off, and how much of it chance explains: that of the draws, and of what was measured.
function errors(state) {
  const drawn = byCoordinate(newest(state, "draws"));
  return [...byCoordinate(newest(state, "coverage"))].filter(([, found]) => Number.isFinite(found.shift?.value)).map(([name, found]) => {
    const effective = drawn.get(name)?.ess_bulk?.value;
    const chance = HALF_WIDTH * Math.hypot(found.shift.se ?? 0, effective > 0 ? 1 / Math.sqrt(effective) : 0);
    const off = Math.abs(found.shift.value);
    return { name, off, chance, ratio: found.ratio?.value ?? null, from: off <= SMALL ? "small" : off <= chance ? "chance" : "bias" };
  }).sort((a, b) => b.off - a.off);
}

export function picture() {
  const [root, body] = section("picture", "Where the error comes from",
    "How far each mean is from the true posterior's, in posterior standard deviations. What chance explains falls with more draws. Bias does not: choose a better method. A true sd above 1 says that the interval is too narrow.");
  const place = el("div");
  const chart = new Chart("errors of means in posterior sds, the largest first", { x: { label: "rank" }, series: [
    { label: "off by", points: true }, { label: "chance explains up to", colour: "--soft", dash: [6, 4] }] });
  body.append(place, chart.root);
  const update = (state) => {
    const found = errors(state);
    root.hidden = !found.length;
    if (root.hidden) return;
    const rows = found.slice(0, SHOWN).map((each) => [each.name, number(each.off, 2), number(each.chance, 2), each.ratio === null ? "–" : `${number(each.ratio, 3)} ×`, each.from]);
    refresh(place, table(["parameter", "mean is off by", "chance explains up to", "true sd", "mostly"], rows,
      { caption: `${rows.length} of ${found.length} numbers`, numbers: [1, 2, 3], cards: true }));
    chart.root.hidden = found.length < 2;
    if (!chart.root.hidden) chart.set([found.map((_, i) => i + 1), found.map((each) => each.off), found.map((each) => each.chance)]);
  };
  return { root, update };
}
