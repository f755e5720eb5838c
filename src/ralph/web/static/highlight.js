// Mark the matches of a search in the text of an element.

const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

// Pattern that finds any of the words, longest first; must match memory/recall/matching.py. Null without words.
export function wordsPattern(words, { areWhole = true } = {}) {
  const longestFirst = [...new Set(words)].filter(Boolean).sort((one, other) => other.length - one.length);
  if (!longestFirst.length) return null;
  const any = longestFirst.map(escaped).join("|");
  return areWhole ? new RegExp(`(?<![\\p{L}\\p{N}_])(?:${any})(?![\\p{L}\\p{N}_])`, "gu") : new RegExp(any, "giu");
}

export function highlight(element, pattern) {
  if (!pattern) return element;
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  const texts = [];
  while (walker.nextNode()) texts.push(walker.currentNode);
  for (const node of texts) {
    const pieces = [];
    let end = 0;
    for (const match of node.data.matchAll(pattern)) {
      const mark = document.createElement("mark");
      mark.textContent = match[0];
      pieces.push(node.data.slice(end, match.index), mark);
      end = match.index + match[0].length;
    }
    if (pieces.length) node.replaceWith(...pieces, node.data.slice(end));
  }
  return element;
}
