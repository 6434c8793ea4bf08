import { section } from "../dom.js";
import { Chart } from "../chart.js";

export function score() {
  const [root, body] = section("score", "How well it predicts",
    "The mean log probability of new events before they were learned from; higher is better. A lasting drop says that the data has changed. A line marks where drift was reported: see what changed in the feed, and consider forgetting old events.");
  const chart = new Chart("log score of new events", { x: { time: true }, series: [{ label: "score" }] });
  body.append(chart.root);
  const update = ({ history }) => {
    const known = (history?.scores ?? []).some((each) => each !== null);
    root.hidden = !known;
    if (!known) return;
    const marks = history.drift.map((each) => ({ x: each.at / 1000, text: "drift" }));
    chart.set([history.at.map((ms) => ms / 1000), history.scores], marks);
  };
  return { root, update };
}
