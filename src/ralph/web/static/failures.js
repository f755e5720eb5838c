// Failures page: expand rows by keyboard.

import { foldRows } from "/static/work.js";

foldRows();
