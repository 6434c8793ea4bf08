import { now } from "../api.js";
import { el, refresh, section, status, table } from "../dom.js";
import { ago, number, plural } from "../format.js";

export function flow() {
  const [root, body] = section("flow", "Flow",
    "Which processes run, and how far behind the data they are. A process without a sign of life for 15 seconds is silent: look at its log. Lag that grows says that more workers are needed.");
  const update = ({ services, document: found }) => {
    const up = services.find((each) => each.service === "up");
    const behind = up?.counters.behind;
    const said = [];
    if (behind !== undefined) said.push(`${plural(behind, "position")} of the data are not in the posterior yet`);
    if (found) said.push(`the oldest base of an increment was ${plural(found.staleness, "version")} behind`, `${plural(found.n_dropped, "increment")} made again`,
      `${plural(found.n_lost, "position")} lost to retention`, `${plural(found.n_rejected, "event")} rejected`);
    const rows = services.map((each) => [each.service, each.instance, status(each.state), ago(1000 * each.seconds_since), number(each.restarts),
      ago(now() - Date.parse(each.started_at)), each.host]);
    const frontier = Object.entries(found?.frontier ?? {}).map(([partition, position]) => [partition, number(position)]);
    refresh(body, said.length ? el("p", {}, `${said.join("; ")}.`) : null,
      table(["service", "instance", "state", "last sign of life", "restarts", "started", "host"], rows, { caption: "Processes", numbers: [4], cards: true }),
      frontier.length ? el("details", {}, el("summary", {}, "Frontier: the position that each partition is learned up to"),
        table(["partition", "position"], frontier, { numbers: [1] })) : null);
  };
  return { root, update };
}
