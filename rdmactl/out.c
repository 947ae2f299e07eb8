/* SPDX-License-Identifier: MIT */
/*
 * out.c - errors, JSON, human numbers and tables.
 */
#include "rdmactl/cli.h"
#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

/* With -j there is one document on standard output, and no more. */
static bool document_is_out;

/* ---- text from outside ---------------------------------------------------------------------- */

/* How many bytes the character at s has; *shown: it is UTF-8, and no control (C0, DEL, C1). */
static size_t character_length(const unsigned char *s, bool *shown) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t n = s[0] < 0x80   ? 1
               : s[0] < 0xc0 ? 0
               : s[0] < 0xe0 ? 2
               : s[0] < 0xf0 ? 3
               : s[0] < 0xf8 ? 4
                             : 0;
    size_t i = 1;
    uint32_t c = n > 1 ? s[0] & (0x7fu >> n) : s[0];
    for (; i < n && (s[i] & 0xc0) == 0x80; i++)
        c = c << 6 | (s[i] & 0x3fu);
    bool whole = i == n && c >= least[n] && c <= 0x10ffff && (c < 0xd800 || c > 0xdfff);
    *shown = whole && c >= ' ' && (c < 0x7f || c > 0x9f);
    return whole ? n : 1;
}

/* As much as there is room for, in whole characters. buf may be text. */
static void copy_safe(char *buf, size_t size, const char *text, bool lines) {
    size_t used = 0;
    while (*text) {
        bool shown;
        size_t n = character_length((const unsigned char *)text, &shown);
        shown = shown || (lines && *text == '\n');
        if (used + (shown ? n : 1) >= size)
            break;
        if (shown)
            memmove(buf + used, text, n);
        else
            buf[used] = '?';
        used += shown ? n : 1;
        text += n;
    }
    buf[used] = '\0';
}

const char *cli_safe_text(char *buf, size_t size, const char *text) {
    copy_safe(buf, size, text, false);
    return buf;
}

void cli_safe_json(json_t *value) {
    const char *key;
    size_t i;
    json_t *member;
    if (json_is_string(value)) {
        char *text = strdup(json_string_value(value));
        if (text)
            copy_safe(text, strlen(text) + 1, text, true);
        json_string_set(value, text ? text : "");
        free(text);
    }
    json_array_foreach(value, i, member) cli_safe_json(member);
    json_object_foreach(value, key, member) cli_safe_json(member);
}

/* ---- errors and documents ------------------------------------------------------------------- */

/* JSON has its own word for what a terminal would obey and jansson leaves as it is: DEL and C1. It
 * comes in whole characters. */
static int put_json(const char *bytes, size_t size, void *to) {
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)bytes[i];
        unsigned char next = i + 1 < size ? (unsigned char)bytes[i + 1] : 0;
        bool c1 = c == 0xc2 && next >= 0x80 && next < 0xa0;
        if (c1 || c == 0x7f)
            fprintf(to, "\\u%04X", c1 ? next : c);
        else
            putc(c, to);
        i += c1;
    }
    return 0;
}

int cli_print_json(json_t *doc) {
    document_is_out = true;
    json_t *whole = json_pack("{s:i}", "schema", 1);
    json_object_update(whole, doc);
    size_t layout = isatty(STDOUT_FILENO) ? JSON_INDENT(2) : JSON_COMPACT;
    json_dump_callback(whole, put_json, stdout, layout | JSON_REAL_PRECISION(12));
    putchar('\n');
    json_decref(whole);
    json_decref(doc);
    return fflush(stdout) || ferror(stdout) ? EXIT_FAILED : EXIT_GOOD; /* main says why */
}

void cli_note(const char *format, ...) {
    char raw[1024], text[1024];
    va_list ap;
    va_start(ap, format);
    vsnprintf(raw, sizeof(raw), format, ap);
    va_end(ap);
    fprintf(stderr, "rdmactl: %s\n", cli_safe_text(text, sizeof(text), raw));
}

static void cli_report(const char *code, const char *format, va_list ap) {
    char raw[1024], text[1024];
    vsnprintf(raw, sizeof(raw), format, ap);
    cli_safe_text(text, sizeof(text), raw);
    if (cli.json && !document_is_out)
        cli_print_json(json_pack("{s:{s:s, s:s}}", "error", "code", code, "text", text));
    else /* in place of a bar that was being drawn */
        fprintf(stderr, "%srdmactl: %s\n", isatty(STDERR_FILENO) ? "\r\033[K" : "", text);
}

int cli_fail(const char *code, const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    cli_report(code, format, ap);
    va_end(ap);
    return EXIT_FAILED;
}

int cli_fail_errno(const char *what) {
    return cli_fail("RDMAD_E_SYSTEM", "%s: %s", what, strerror(errno));
}

int cli_usage_error(const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    cli_report("RDMAD_E_INVAL", format, ap);
    va_end(ap);
    return EXIT_USAGE;
}

/* ---- numbers -------------------------------------------------------------------------------- */

const char *cli_human_bytes(char buf[CELL_MAX], double bytes) {
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    unsigned u = 0;
    while (bytes >= 1024 && u < 5) {
        bytes /= 1024;
        u++;
    }
    bool whole = bytes >= 100 || bytes - (double)(long)bytes < 0.005;
    snprintf(buf, CELL_MAX, "%.*f %s", whole ? 0 : bytes < 10 ? 2 : 1, bytes, unit[u]);
    return buf;
}

const char *cli_human_seconds(char buf[CELL_MAX], double s) {
    unsigned long whole = (unsigned long)s;
    if (s < 1)
        snprintf(buf, CELL_MAX, "%.0f ms", s * 1e3);
    else if (s < 60)
        snprintf(buf, CELL_MAX, "%.1f s", s);
    else if (s < 3600)
        snprintf(buf, CELL_MAX, "%lu m %lu s", whole / 60, whole % 60);
    else if (s < 86400)
        snprintf(buf, CELL_MAX, "%lu h %lu m", whole / 3600, whole / 60 % 60);
    else
        snprintf(buf, CELL_MAX, "%lu d %lu h", whole / 86400, whole / 3600 % 24);
    return buf;
}

const char *cli_human_us(char buf[CELL_MAX], double us) {
    if (us < 1000)
        snprintf(buf, CELL_MAX, us < 10 ? "%.2f us" : us < 100 ? "%.1f us" : "%.0f us", us);
    else if (us < 1e6)
        snprintf(buf, CELL_MAX, us < 1e4 ? "%.2f ms" : "%.0f ms", us / 1e3);
    else
        snprintf(buf, CELL_MAX, "%.1f s", us / 1e6);
    return buf;
}

double cli_number(const json_t *row, const char *key) {
    return json_number_value(json_object_get(row, key));
}

const char *cli_text(const json_t *row, const char *key) {
    const json_t *text = json_object_get(row, key);
    return json_string_length(text) ? json_string_value(text) : "-";
}

bool cli_is_loopback(const char *host) {
    struct in_addr v4;
    struct in6_addr v6;
    if (inet_pton(AF_INET, host, &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == IN_LOOPBACKNET;
    if (inet_pton(AF_INET6, host, &v6) == 1)
        return IN6_IS_ADDR_LOOPBACK(&v6) ||
               (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == IN_LOOPBACKNET);
    return !strcasecmp(host, "localhost");
}

double cli_now_s(void) {
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* ---- tables --------------------------------------------------------------------------------- */

#define COLUMN_MOST 63u /* bytes of a cell, but for those of the last column */

struct table {
    unsigned columns;
    unsigned rows_shown, columns_shown; /* 0: all */
    size_t cells, room;
    struct cell {
        bool right;
        char *text; /* NULL: there was no memory for it */
    } * cell;
};

struct table *table_new(unsigned columns) {
    struct table *t = calloc(1, sizeof(*t));
    if (t)
        t->columns = columns;
    return t;
}

static const char *cell_text(const struct cell *c) {
    return c->text ? c->text : "?";
}

/* What has others to its right is cut, between two characters, and says so. */
static void cut_cell(char *text) {
    size_t at = COLUMN_MOST - 3;
    if (strlen(text) <= COLUMN_MOST)
        return;
    while (((unsigned char)text[at] & 0xc0) == 0x80)
        at--;
    memcpy(text + at, "...", 4);
}

void table_cell(struct table *t, bool right, const char *text) {
    if (!t)
        return;
    if (t->cells == t->room) {
        size_t room = t->room ? 2 * t->room : 64;
        struct cell *grown = reallocarray(t->cell, room, sizeof(*grown));
        if (!grown)
            return;
        t->cell = grown;
        t->room = room;
    }
    bool last = t->cells % t->columns == t->columns - 1;
    struct cell *c = &t->cell[t->cells++];
    *c = (struct cell){.right = right, .text = strdup(text)};
    if (!c->text)
        return;
    cli_safe_text(c->text, strlen(text) + 1, c->text);
    if (!last)
        cut_cell(c->text);
}

static void print_cell(const struct cell *c, int width, bool last) {
    const char *text = cell_text(c);
    if (c->right)
        printf("%*s", width, text);
    else if (last)
        fputs(text, stdout);
    else
        printf("%-*s", width, text);
    fputs(last ? "\n" : "  ", stdout);
}

static int column_width(const struct table *t, unsigned column) {
    size_t widest = 0;
    for (size_t i = column; i < t->cells; i += t->columns) {
        size_t length = strlen(cell_text(&t->cell[i]));
        widest = length > widest ? length : widest;
    }
    return (int)widest;
}

struct table_rest table_fit(struct table *t, unsigned rows, unsigned width) {
    struct table_rest rest = {0};
    if (!t)
        return rest;
    unsigned all = (unsigned)(t->cells / t->columns), fit = 1;
    size_t used = (size_t)column_width(t, 0);
    while (fit < t->columns && (used += 2 + (size_t)column_width(t, fit)) <= width)
        fit++;
    t->rows_shown = rows;
    t->columns_shown = fit;
    rest.rows = all > rows ? all - rows : 0;
    rest.columns = t->columns - fit;
    return rest;
}

void table_print(struct table *t) {
    if (!t)
        return;
    unsigned columns = t->columns_shown ? t->columns_shown : t->columns;
    int *width = calloc(t->columns, sizeof(*width));
    for (unsigned c = 0; width && c < columns; c++)
        width[c] = column_width(t, c);
    for (size_t i = 0; width && i < t->cells; i++) {
        unsigned column = (unsigned)(i % t->columns);
        if (t->rows_shown && i / t->columns >= t->rows_shown)
            break;
        if (column < columns)
            print_cell(&t->cell[i], width[column], column + 1 == columns);
    }
    for (size_t i = 0; i < t->cells; i++)
        free(t->cell[i].text);
    free(width);
    free(t->cell);
    free(t);
}
