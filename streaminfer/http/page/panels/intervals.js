import { el, fill, section } from "../dom.js";
import { Chart } from "../chart.js";

const FIRST = 4;

export function intervals() {
  const [root, body] = section("intervals", "Intervals over time",
    "The band is the 95% interval of each version, the line its mean. Bands narrow as events come in. One that jumps by more than its width says that the data or a feed has changed.");
  const choose = el("select", { id: "coordinate", "aria-label": "Parameters shown" });
  const grid = el("div", { class: "grid" });
  const charts = new Map();
  let state = null;
  let known = "";
  choose.addEventListener("change", () => draw());

  function options(names) {
    if (known === names.join("\n")) return;
    known = names.join("\n");
    const groups = names.length > FIRST ? [el("option", { value: "" }, `the first ${FIRST}`)] : [el("option", { value: "" }, "all")];
    fill(choose, ...groups, ...names.map((name) => el("option", { value: name }, name)));
    choose.hidden = names.length <= FIRST;
  }

  function draw() {
    const { history } = state;
    const names = Object.keys(history?.parameters ?? {});
    options(names);
    const wanted = choose.value ? [choose.value] : names.slice(0, FIRST);
    const at = (history?.at ?? []).map((ms) => ms / 1000);
    const marks = (history?.drift ?? []).map((each) => ({ x: each.at / 1000, text: "drift" }));
    for (const name of wanted) {
      if (!charts.has(name)) {
        charts.set(name, new Chart(name, { x: { time: true }, bands: [[2, 1]],
          series: [{ label: "lower", width: 1 }, { label: "upper", width: 1 }, { label: "mean" }] }));
      }
      const { lower, upper, mean } = history.parameters[name];
      charts.get(name).set([at, lower, upper, mean], marks);
    }
    const shown = wanted.map((name) => charts.get(name).root);
    if (shown.length !== grid.children.length || shown.some((each, i) => grid.children[i] !== each)) fill(grid, ...shown);
  }

  body.append(choose, grid);
  const update = (now) => {
    state = now;
    root.hidden = Object.keys(state.history?.parameters ?? {}).length === 0;
    if (!root.hidden) draw();
  };
  return { root, update };
}
