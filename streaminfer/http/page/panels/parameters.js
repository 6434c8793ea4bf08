import { el, refresh, section, table } from "../dom.js";
import { number, percent } from "../format.js";
import { byCoordinate, newest, numbers } from "../values.js";

const SHOWN = 25;
const HALF_WIDTH = 1.959963984540054;

function topics(found) {
  const words = found.topics.top ?? found.topics.mean.map((row) => row
    .map((p, i) => [found.vocabulary[i], p]).sort((a, b) => b[1] - a[1]).slice(0, 10));
  const rows = words.map((row, i) => [String(i), row.slice(0, 10).map(([word, p]) => `${word} ${percent(p)}`).join(", ")]);
  return table(["topic", "likeliest words"], rows, { caption: "Topics" });
}

export function parameters() {
  const [root, body] = section("parameters", "Parameters",
    "Each has its mean, its 95% interval, and what that interval really holds of the true posterior, as the monitor measures it. Use an interval that holds much less than 95% with care. The worst come first.");
  const search = el("input", { type: "search", id: "search", autocomplete: "off" });
  const more = el("button", { type: "button", onclick: () => { shown *= 4; draw(); } }, "Show more");
  const place = el("div");
  body.append(el("label", { for: "search" }, "Search "), search, place, more);
  let shown = SHOWN;
  let state = null;
  search.addEventListener("input", () => draw());

  function draw() {
    const holds = byCoordinate(newest(state, "coverage"));
    const wanted = search.value.trim().toLowerCase();
    const rank = (each) => holds.get(each.name)?.coverage?.value ?? 2;
    const found = numbers(state).filter((each) => each.name.toLowerCase().includes(wanted)).sort((a, b) => rank(a) - rank(b));
    const rows = found.slice(0, shown).map(({ name, mean, sd }) => {
      const known = holds.get(name) ?? {};
      const [lower, upper] = mean === null || sd === null ? [null, null] : [mean - HALF_WIDTH * sd, mean + HALF_WIDTH * sd];
      const error = known.coverage?.se >= 0.005 ? ` ± ${percent(known.coverage.se)}` : "";
      return [name, number(mean), number(sd), `${number(lower)} to ${number(upper)}`,
        known.coverage ? `${percent(known.coverage.value)}${error}` : "not measured"];
    });
    refresh(place, table(["parameter", "mean", "sd", "95% interval", "really holds"], rows,
      { caption: `${rows.length} of ${found.length} numbers`, numbers: [1, 2, 3, 4], cards: true }));
    more.hidden = rows.length === found.length;
  }

  const update = (now) => {
    state = now;
    const many = state.document?.parameters;
    const isTopics = many?.topics !== undefined;
    root.hidden = state.about.keyed;
    search.parentElement.querySelector("label").hidden = search.hidden = isTopics || numbers(state).length <= SHOWN;
    if (isTopics) { more.hidden = true; refresh(place, topics(many)); } else if (many) draw();
    else { more.hidden = true; refresh(place, el("p", {}, "There is no posterior yet.")); }
  };
  return { root, update };
}
