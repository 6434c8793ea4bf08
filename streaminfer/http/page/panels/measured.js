// One measurement: what was found, its numbers, and its curves with tables behind them.

import { now } from "../api.js";
import { el, status, table } from "../dom.js";
import { Chart } from "../chart.js";
import { ago, number } from "../format.js";

const MOST = 40;
const AXES = { pit: ["predicted share of events", "share of events", "as it should be"] };

function values(found) {
  const rows = found.values.slice(0, MOST).map((each) => [each.coordinate ? `${each.name}: ${each.coordinate}` : each.name,
    number(each.value), number(each.se), each.lower === null && each.upper === null ? "" : `${number(each.lower)} to ${number(each.upper)}`]);
  if (!rows.length) return null;
  return el("details", {}, el("summary", {}, `Numbers of ${found.check}`), table(["value", "is", "± standard error", "range"], rows,
    { caption: `${found.check} of version ${found.version}`, numbers: [1, 2, 3] }));
}

export class Measured {
  constructor() {
    this.text = el("p");
    this.extra = el("p", { class: "why" });
    this.curves = el("div", { class: "grid" });
    this.numbers = el("div");
    this.root = el("div", {}, this.text, this.extra, this.curves, this.numbers);
    this.charts = new Map();
    this.id = null;
  }

  update(found) {
    if (this.id === found.id) return this.age(found);
    this.id = found.id;
    this.text.replaceChildren(el("strong", {}, found.check.replaceAll("_", " ")), " ", status(found.status), " ", found.sentence,
      ...(found.remedy ? [el("div", {}, `What to do: ${found.remedy}`)] : []));
    const open = this.numbers.querySelector("details")?.open;
    this.numbers.replaceChildren(...[values(found)].filter(Boolean));
    if (open && this.numbers.firstChild) this.numbers.firstChild.open = true;
    this.age(found);
    this.draw(found);
  }

  age(found) {
    const parts = [`version ${found.version}`, found.target ? `scores of ${found.target} events` : "",
      found.n_draws ? `${number(found.n_draws)} draws` : "", found.n_data ? `${number(found.n_data)} events` : "",
      `took ${number(found.seconds, 2)} s`, ago(now() - Date.parse(found.measured_at))];
    this.extra.replaceChildren(parts.filter(Boolean).join(" · "));
  }

  draw(found) {
    for (const [name, curve] of Object.entries(found.curves)) {
      if (!curve.length || curve[0].length < 2) continue;
      // What a curve should be is its diagonal, if it does not say so itself.
      const rows = (AXES[name]?.length ?? 0) > curve[0].length ? curve.map((row) => [...row, row[0]]) : curve;
      if (!this.charts.has(name)) {
        const heads = AXES[name] ?? [];
        const columns = rows[0].slice(1).map((_, i) => ({ label: heads[i + 1] ?? `${name} ${i + 1}`, dash: i ? [6, 4] : undefined, colour: i ? "--soft" : "--blue" }));
        this.charts.set(name, new Chart(name.replaceAll("_", " "), { x: { label: heads[0] }, series: columns }));
        this.curves.append(this.charts.get(name).root);
      }
      const order = [...rows].sort((a, b) => a[0] - b[0]);
      this.charts.get(name).set(order[0].map((_, column) => order.map((row) => row[column])));
    }
  }
}

// A list of measurements that keeps its elements while their numbers change.
export class MeasuredList {
  constructor() {
    this.root = el("div");
    this.shown = new Map();
  }

  update(found) {
    for (const each of found) {
      const key = `${each.check}/${each.subject}`;
      if (!this.shown.has(key)) {
        this.shown.set(key, new Measured());
        this.root.append(this.shown.get(key).root);
      }
      this.shown.get(key).update(each);
    }
  }
}
