/* SPDX-License-Identifier: MIT */
/*
 * error.c - codes and their sentences.
 *
 * A sentence that does not fit is cut; a code is never lost.
 */
#include "daemon/base/error.h"
#include "common/errors.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *error_text(int code) {
    return rdmad_error_text(code);
}

int(error_set)(struct error *err, int code, const char *format, ...) {
    if (!err)
        return code;

    va_list ap;
    va_start(ap, format);
    vsnprintf(err->text, sizeof(err->text), format, ap);
    va_end(ap);
    err->code = code;
    return code;
}

int(error_errno)(struct error *err, int code, const char *format, ...) {
    int saved = errno;
    if (!err)
        return code;

    va_list ap;
    va_start(ap, format);
    vsnprintf(err->text, sizeof(err->text), format, ap);
    va_end(ap);

    char why[128];
    size_t used = strlen(err->text);
    snprintf(err->text + used, sizeof(err->text) - used, ": %s",
             strerror_r(saved, why, sizeof(why)));
    err->code = code;
    errno = saved;
    return code;
}
