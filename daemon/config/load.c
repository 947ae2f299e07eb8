/* SPDX-License-Identifier: MIT */
/*
 * load.c - a configuration file and those of its .d directory, in order of name.
 *
 * Everything is read over a copy; the caller's settings change only when all of it was good.
 */
#include "daemon/config/schema.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX_BYTES (1u << 20)

/* Reads at most FILE_MAX_BYTES + 1; returns the count, or -1 with errno. */
static ssize_t read_all(int fd, char *buf) {
    size_t used = 0;
    while (used <= FILE_MAX_BYTES) {
        ssize_t n = read(fd, buf + used, FILE_MAX_BYTES + 1 - used);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        used += (size_t)n;
    }
    return (ssize_t)used;
}

static int load_fd(struct config *c, const char *file, int fd, struct config_places *places,
                   struct error *err) {
    char *buf = malloc(FILE_MAX_BYTES + 1);
    if (!buf)
        return error_set(err, RDMAD_E_NOMEM, "%s: out of memory", file);
    ssize_t n = read_all(fd, buf);
    int failed;
    if (n < 0)
        failed = error_errno(err, RDMAD_E_CONFIG, "%s: cannot be read", file);
    else if (n > (ssize_t)FILE_MAX_BYTES)
        failed =
            error_set(err, RDMAD_E_CONFIG, "%s: larger than %u bytes, which no configuration is",
                      file, FILE_MAX_BYTES);
    else
        failed = config_parse_over(c, file, buf, (size_t)n, places, err);
    free(buf);
    return failed;
}

static int load_file(struct config *c, const char *file, struct config_places *places,
                     struct error *err) {
    int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not hang us */
    if (fd < 0)
        return error_errno(err, RDMAD_E_CONFIG, "%s: cannot be opened", file);
    int failed = load_fd(c, file, fd, places, err);
    close(fd);
    return failed;
}

static int is_json(const struct dirent *entry) {
    size_t n = strlen(entry->d_name);
    return entry->d_name[0] != '.' && n > 5 && !strcmp(entry->d_name + n - 5, ".json");
}

static int load_directory(struct config *c, const char *file, struct config_places *places,
                          struct error *err) {
    char directory[4096];
    if (snprintf(directory, sizeof(directory), "%s.d", file) >= (int)sizeof(directory))
        return error_set(err, RDMAD_E_CONFIG, "the name of the configuration file is too long");

    struct dirent **entry;
    int n = scandir(directory, &entry, is_json, alphasort);
    if (n < 0 && errno == ENOENT)
        return 0;
    if (n < 0)
        return error_errno(err, RDMAD_E_CONFIG, "%s: cannot be read", directory);

    int failed = 0;
    for (int i = 0; i < n; i++) {
        char path[4096 + 256 + 2];
        snprintf(path, sizeof(path), "%s/%s", directory, entry[i]->d_name);
        if (!failed)
            failed = load_file(c, path, places, err);
        free(entry[i]);
    }
    free(entry);
    return failed;
}

int config_load(struct config *c, const char *file, struct config_places *places,
                struct error *err) {
    struct config copy = *c;
    int failed = config_begin(&copy, err);
    if (!failed && file) {
        failed = load_file(&copy, file, places, err);
        if (!failed)
            failed = load_directory(&copy, file, places, err);
    }
    return config_finish(c, &copy, failed, err);
}
