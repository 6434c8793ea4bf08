import { el, refresh, section, table } from "../dom.js";
import { number } from "../format.js";

const LONGEST = 200;

export function letters() {
  const [root, body] = section("dead-letters", "Dead letters",
    "Events that could not be read, with the reason. They are kept byte for byte and are not in the posterior. Correct what sends them, or send them again with `streaminfer dead-letters --retry`.");
  const update = ({ letters: found, document: known }) => {
    const rows = (found?.dead_letters ?? []).map((each) => [`${each.topic}-${each.partition}`, number(each.offset), each.reason,
      el("span", { class: "text" }, (each.value ?? each.value_base64 ?? "").slice(0, LONGEST))]);
    refresh(body, rows.length
      ? table(["partition", "offset", "reason", "value"], rows, { caption: `The newest ${rows.length}${known ? `; ${number(known.n_dead_lettered)} in all` : ""}`, numbers: [1], cards: true })
      : el("p", {}, "There are none."));
  };
  return { root, update };
}
