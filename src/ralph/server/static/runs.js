// The list of runs, while one looks at it.
import { calmly, follow, refresh } from "./ui.js";

follow(calmly(refresh, 800));
