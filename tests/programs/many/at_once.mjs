// Does something with each of a list, so many at a time, and counts the outcomes by name.

/** @param {object[]} list @param {number} number @param {(item: object) => Promise<unknown>} act */
export async function counted(list, number, act) {
  const counts = {};
  let next = 0;
  const worker = async () => {
    while (next < list.length) {
      const outcome = await act(list[next++]).then(() => 'accepted', (error) => error.name ?? 'Error');
      counts[outcome] = (counts[outcome] ?? 0) + 1;
    }
  };
  await Promise.all(Array.from({ length: number }, worker));
  return counts;
}
