/* SPDX-License-Identifier: MIT */
/*
 * daemon_env.c - words that are left out, words that are put in.
 */
#include "tests/support/daemon_env.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const sanitizers[DAEMON_ENV_REPORTS] = {"ASAN_OPTIONS", "UBSAN_OPTIONS",
                                                           "TSAN_OPTIONS"};
static const char *const left_out[] = {"NOTIFY_SOCKET", "JOURNAL_STREAM"};

static bool is_of(const char *word, const char *variable) {
    size_t n = strlen(variable);
    return !strncmp(word, variable, n) && word[n] == '=';
}

static bool is_kept(const char *word) {
    for (unsigned i = 0; i < DAEMON_ENV_REPORTS; i++)
        if (is_of(word, sanitizers[i]))
            return false;
    for (unsigned i = 0; i < sizeof(left_out) / sizeof(left_out[0]); i++)
        if (is_of(word, left_out[i]))
            return false;
    return true;
}

/* Appends log_path to what the environment says already: the last setting wins. The directory is
 * for the porter, too, which is another user's process. */
static bool report_word(char word[1024], const char *variable, const char *dir) {
    const char *old = getenv(variable);
    int n = snprintf(word, 1024, "%s=%s%slog_path=%s/reports/report", variable, old ? old : "",
                     old ? ":" : "", dir);
    return n > 0 && n < 1024;
}

bool daemon_env_make(struct daemon_env *e, const char *dir) {
    unsigned n = 0;
    for (char **word = environ; *word; word++) {
        if (n + DAEMON_ENV_REPORTS + 1 >= DAEMON_ENV_WORDS)
            return false;
        if (is_kept(*word))
            e->words[n++] = *word;
    }
    for (unsigned i = 0; i < DAEMON_ENV_REPORTS; i++) {
        if (!report_word(e->reports[i], sanitizers[i], dir))
            return false;
        e->words[n++] = e->reports[i];
    }
    e->words[n] = NULL;
    return true;
}
