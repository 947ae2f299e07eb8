/* SPDX-License-Identifier: MIT */
#include "pki/error.h"
#include <errno.h>
#include <openssl/err.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#undef pki_fail
#undef pki_fail_errno
#undef pki_fail_ssl

__attribute__((format(printf, 4, 0))) static int
error_compose(struct pki_error *err, int code, const char *after, const char *format, va_list ap) {
    if (!err)
        return code;
    int n = vsnprintf(err->text, sizeof(err->text), format, ap);
    if (after && n > 0 && n < (int)sizeof(err->text))
        snprintf(err->text + n, sizeof(err->text) - (size_t)n, ": %s", after);
    for (char *c = err->text; *c; c++)
        if (*c < ' ' || *c == 0x7f)
            *c = '?';
    err->code = code;
    return code;
}

int pki_fail(struct pki_error *err, int code, const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    error_compose(err, code, NULL, format, ap);
    va_end(ap);
    return code;
}

int pki_fail_errno(struct pki_error *err, int code, const char *format, ...) {
    const char *why = strerror(errno);
    va_list ap;
    va_start(ap, format);
    error_compose(err, code, why, format, ap);
    va_end(ap);
    return code;
}

int pki_fail_ssl(struct pki_error *err, int code, const char *format, ...) {
    unsigned long queued = ERR_peek_last_error();
    const char *why = queued ? ERR_reason_error_string(queued) : NULL;
    va_list ap;
    va_start(ap, format);
    error_compose(err, code, why, format, ap);
    va_end(ap);
    ERR_clear_error();
    return code;
}
