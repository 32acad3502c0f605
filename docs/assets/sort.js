// A click on a column's name sorts its table by that column; a second click turns the order round.
// Numbers count as numbers, whatever stands behind them; empty cells come last.
document$.subscribe(() => {
  const value = row => column => row.cells[column].textContent.trim();
  const number = text => (/^[−-]?[\d.,]+/.test(text) ? parseFloat(text.replace(/,/g, "").replace("−", "-")) : NaN);
  const compare = (a, b) => {
    if (!a || !b) return (!a && b ? 1 : 0) - (a && !b ? 1 : 0);
    const [x, y] = [number(a), number(b)];
    return Number.isNaN(x) || Number.isNaN(y) ? a.localeCompare(b) : x - y;
  };
  for (const table of document.querySelectorAll("article table")) {
    const body = table.tBodies[0], heads = table.tHead ? [...table.tHead.rows[0].cells] : [];
    if (!body || body.rows.length < 6) continue;
    heads.forEach((head, column) => {
      head.setAttribute("tabindex", "0");
      head.classList.add("sorts");
      const sort = () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        heads.forEach(each => each.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const rows = [...body.rows].sort((a, b) => {
          const [x, y] = [value(a)(column), value(b)(column)];
          return x && y && down ? compare(y, x) : compare(x, y);
        });
        body.append(...rows);
      };
      head.addEventListener("click", sort);
      head.addEventListener("keydown", event => { if (event.key === "Enter") sort(); });
    });
  }
});
