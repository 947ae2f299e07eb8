/* SPDX-License-Identifier: MIT */
/*
 * text.c - a program's strings as the wire's fields.
 */
#include "libclient/base/text.h"
#include "libclient/base/error.h"
#include <string.h>

int rdmad_copy_text(const struct rdmad_session *s, char *field, size_t size, const char *text,
                    const char *what, int code) {
    size_t n;

    if (!text)
        return 0;
    n = strlen(text);
    if (n >= size)
        return rdmad_fail(s, code, "the %s has %zu characters, at most %zu are allowed", what, n,
                          size - 1);
    memcpy(field, text, n + 1);
    return 0;
}
