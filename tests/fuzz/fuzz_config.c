/* SPDX-License-Identifier: MIT */
/* Any text is either settings within their bounds or one sentence that starts with its place. */
#include "daemon/config/config.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct config before, after;
    struct error err;
    const char *key;
    config_defaults(&before);
    after = before;
    int failed = config_parse(&after, "FILE", (const char *)data, size, &err);
    if (failed && (memcmp(&before, &after, sizeof(before)) || err.code != failed || !*err.text))
        abort();
    if (!failed &&
        (after.workers < 1 || after.workers > 64 || after.spin_min_us > after.spin_max_us))
        abort();
    (void)config_needs_restart(&before, &after, &key);
    config_free(&after);
    return 0;
}
