// SPDX-License-Identifier: Apache-2.0
// Tables are sorted by the column whose title is pressed, upwards first; numbers as numbers, words as words.
"use strict";
for (const table of document.querySelectorAll("table")) {
  const titles = [...table.tHead.rows[0].cells];
  titles.forEach((title, column) => title.querySelector("button").addEventListener("click", () => {
    const down = title.getAttribute("aria-sort") === "ascending";
    titles.forEach((other) => other.removeAttribute("aria-sort"));
    title.setAttribute("aria-sort", down ? "descending" : "ascending");
    const body = table.tBodies[0];
    const key = (row) => row.cells[column].dataset.key;
    const compare = (a, b) => {
      const x = key(a), y = key(b), numbers = x !== "" && y !== "" && !isNaN(x) && !isNaN(y);
      return numbers ? Number(x) - Number(y) : x.localeCompare(y);
    };
    body.append(...[...body.rows].sort((a, b) => (down ? compare(b, a) : compare(a, b))));
  }));
}
// A chart in a part of the page that was not shown has no width yet.
for (const part of document.querySelectorAll("details"))
  part.addEventListener("toggle", () => part.open && window.dispatchEvent(new Event("resize")));
