/* SPDX-License-Identifier: MIT */
/*
 * doctor.c - what the checks of doctor.h share: saying, and reading little files.
 */
#include "rdmactl/doctor.h"
#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *exam_words(const char *format, va_list ap) {
    char raw[640], text[640];
    vsnprintf(raw, sizeof(raw), format, ap);
    json_t *o = json_string(cli_safe_text(text, sizeof(text), raw));
    return o ? o : json_string("(not UTF-8)");
}

void exam_say(struct exam *e, enum level level, const char *format, ...) {
    static const char *const names[] = {"good", "note", "warning", "bad", "skipped"};
    va_list ap;
    va_start(ap, format);
    json_t *text = exam_words(format, ap);
    va_end(ap);
    if (level == BAD)
        e->bad = true;
    json_array_append_new(e->rows, json_pack("{s:s, s:s, s:o, s:n}", "check", e->check, "result",
                                             names[level], "text", text, "next"));
}

void exam_next(struct exam *e, const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    json_t *text = exam_words(format, ap);
    va_end(ap);
    json_object_set_new(json_array_get(e->rows, json_array_size(e->rows) - 1), "next", text);
}

const json_t *exam_fact(const struct exam *e, const char *outer, const char *inner) {
    const json_t *o = json_object_get(e->status, outer);
    return inner ? json_object_get(o, inner) : o;
}

const char *exam_fact_text(const struct exam *e, const char *outer, const char *inner) {
    const char *s = json_string_value(exam_fact(e, outer, inner));
    return s ? s : "";
}

double exam_setting(const struct exam *e, const char *key, double fallback) {
    const json_t *value = json_object_get(e->config, key);
    return json_is_number(value) ? json_number_value(value) : fallback;
}

bool exam_uses_verbs(const struct exam *e) {
    return json_is_true(exam_fact(e, "fabric", "rdma"));
}

static FILE *exam_open(const struct exam *e, const char *path) {
    char whole[512];
    if (snprintf(whole, sizeof(whole), "%s%s", e->root, path) >= (int)sizeof(whole))
        return NULL;
    return fopen(whole, "re");
}

bool exam_first_line(const struct exam *e, const char *path, char *buf, size_t size) {
    return exam_line_with(e, path, "", buf, size);
}

bool exam_line_with(const struct exam *e, const char *path, const char *key, char *buf,
                    size_t size) {
    char line[1024];
    bool found = false;
    FILE *f = exam_open(e, path);
    while (f && !found && fgets(line, sizeof(line), f))
        found = !strncmp(line, key, strlen(key));
    if (f)
        fclose(f);
    if (found) {
        line[strcspn(line, "\n")] = '\0';
        const char *rest = line + strlen(key);
        snprintf(buf, size, "%s", rest + strspn(rest, " \t"));
    }
    return found;
}

static int name_not_hidden(const struct dirent *entry) {
    return entry->d_name[0] != '.';
}

unsigned exam_names_in(const struct exam *e, const char *path, struct exam_names *out) {
    char whole[512];
    struct dirent **entry;
    out->count = 0;
    if (snprintf(whole, sizeof(whole), "%s%s", e->root, path) >= (int)sizeof(whole))
        return 0;
    int n = scandir(whole, &entry, name_not_hidden, versionsort);
    for (int i = 0; i < n; i++) {
        size_t length = strlen(entry[i]->d_name) + 1;
        if (out->count < sizeof(out->name) / sizeof(out->name[0]) && length <= sizeof(out->name[0]))
            memcpy(out->name[out->count++], entry[i]->d_name, length);
        free(entry[i]);
    }
    if (n >= 0)
        free(entry);
    return out->count;
}
