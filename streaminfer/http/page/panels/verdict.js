import { el, refresh, section, status } from "../dom.js";

const QUESTIONS = { fresh: "Is it fresh?", complete: "Is it complete?", computed_right: "Is it computed right?", fits_the_data: "Does it fit the data?" };

export function verdict() {
  const [root, body] = section("verdict", "Can I trust this posterior now?",
    "The worst answer to four questions decides: is it fresh, is it complete, is it computed right, and does it fit the data? What is not known yet counts as “watch”.");
  const update = ({ verdict: found }) => {
    if (!found) return refresh(body, el("p", {}, status("unknown"), " There is no verdict yet."));
    const reasons = found.reasons.map((reason) => el("li", {},
      el("strong", {}, QUESTIONS[reason.question] ?? reason.question), " ", status(reason.status), " ", reason.sentence,
      reason.remedy ? el("div", {}, `What to do: ${reason.remedy}`) : null));
    return refresh(body, el("p", { class: "verdict" }, status(found.verdict)), el("ul", { class: "reasons" }, ...reasons));
  };
  return { root, update };
}
