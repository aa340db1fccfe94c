/** zod looks for `eval` when it is loaded, which the page forbids: told before, it does not. */

import { config } from "zod/v4/core";

config({ jitless: true });
