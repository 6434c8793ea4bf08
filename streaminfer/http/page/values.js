// What several panels read from the state.

const flat = (x) => (Array.isArray(x) ? x.flatMap(flat) : [x]);
// The indexes of all numbers of a list of lists.
const places = (x, at = []) => (Array.isArray(x) ? x.flatMap((each, i) => places(each, [...at, i])) : [at]);

// The newest measurement of a check.
export const newest = (state, check) => state.metrics.findLast((each) => each.check === check);

// The newest of every check, by name.
export function byCheck(state) {
  const found = new Map();
  for (const each of state.metrics) found.set(`${each.check}/${each.subject}`, each);
  return [...found.values()];
}

// {coordinate: {name: value}} of a measurement.
export function byCoordinate(measurement) {
  const found = new Map();
  for (const value of measurement?.values ?? []) {
    if (!value.coordinate) continue;
    found.set(value.coordinate, { ...found.get(value.coordinate), [value.name]: value });
  }
  return found;
}

// All numbers of the posterior in declared order: [{name, mean, sd}].
export function numbers(state) {
  const named = state.history?.coordinates ?? [];
  const found = [];
  for (const [name, each] of Object.entries(state.document?.parameters ?? {})) {
    if (!each || each.mean === undefined || name === "topics") continue;
    const means = flat(each.mean);
    const sds = flat(each.sd);
    const where = places(each.mean).map((at) => (at.length ? `${name}[${at.join(", ")}]` : name));
    means.forEach((mean, i) => found.push({ name: named[found.length] ?? where[i], mean, sd: sds[i] ?? null }));
  }
  return found;
}
