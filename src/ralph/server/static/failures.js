// Failures: rows that fold are opened by keys, too.

import { foldRows } from "/static/work.js";

foldRows();
