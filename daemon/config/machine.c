/* SPDX-License-Identifier: MIT */
/*
 * machine.c - settings that are right in themselves, and that this machine does not have. Only the
 * check of a configuration asks for them; a daemon that starts finds out by itself, and says so.
 *
 * Only what somebody has set is looked at, at the place where it was set last.
 */
#include "daemon/config/schema.h"
#include <errno.h>
#include <grp.h>
#include <libgen.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* Each returns RDMAD_OK, or sets a sentence about text, which is not empty. */
typedef int machine_check(const char *key, const char *text, struct error *err);

static int has_group(const char *key, const char *text, struct error *err) {
    if (getgrnam(text))
        return RDMAD_OK;
    return error_set(err, RDMAD_E_CONFIG, "%s \"%s\": this machine has no such group", key, text);
}

/* It is there, or its parent is: then it is made. */
static int has_directory(const char *key, const char *text, struct error *err) {
    struct stat st;
    char parent[sizeof(((struct config *)0)->runtime_dir)];
    if (!stat(text, &st))
        return S_ISDIR(st.st_mode)
                   ? RDMAD_OK
                   : error_set(err, RDMAD_E_CONFIG, "%s \"%s\" is not a directory", key, text);
    if (errno != ENOENT)
        return error_errno(err, RDMAD_E_CONFIG, "%s \"%s\"", key, text);
    snprintf(parent, sizeof(parent), "%s", text);
    if (!stat(dirname(parent), &st) && S_ISDIR(st.st_mode))
        return RDMAD_OK;
    return error_set(err, RDMAD_E_CONFIG,
                     "%s \"%s\": neither it nor the directory that it would be made in exists", key,
                     text);
}

/* The directory is there, or the file is and can be written to. */
static int has_place(const char *key, const char *text, struct error *err) {
    struct stat st;
    char parent[sizeof(((struct config *)0)->audit_file)];
    snprintf(parent, sizeof(parent), "%s", text);
    if (!stat(dirname(parent), &st) && S_ISDIR(st.st_mode))
        return RDMAD_OK;
    return error_set(err, RDMAD_E_CONFIG, "%s \"%s\": there is no directory %s", key, text, parent);
}

static int has_congestion_control(const char *key, const char *text, struct error *err) {
    static const char list[] = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    char line[512] = "", copy[512];
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    /* One that is not listed may be a module, which the kernel loads if we are privileged. */
    bool can =
        fd < 0 || !setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, text, (socklen_t)strlen(text));
    if (fd >= 0)
        close(fd);
    FILE *f = fopen(list, "re");
    bool known = f && fgets(line, sizeof(line), f);
    if (f)
        fclose(f);
    line[strcspn(line, "\n")] = '\0';
    memcpy(copy, line, sizeof(copy));
    char *rest = NULL;
    for (char *word = strtok_r(copy, " ", &rest); word && !can; word = strtok_r(NULL, " ", &rest))
        can = !strcmp(word, text);
    if (can || !known)
        return RDMAD_OK;
    return error_set(err, RDMAD_E_CONFIG,
                     "%s \"%s\": this kernel does not have it; it has %s (modprobe tcp_%s may add "
                     "it)",
                     key, text, line, text);
}

static const struct {
    const char *key;
    machine_check *check;
} checks[] = {
    {"socket_group", has_group},
    {"runtime_dir", has_directory},
    {"audit.file", has_place},
    {"tcp.congestion_control", has_congestion_control},
};

int config_check_machine(const struct config *c, const struct config_places *places,
                         struct error *err) {
    struct config copy = *c;
    for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
        const struct setting *s = setting_find(checks[i].key);
        const char *place = places->at[s - settings];
        const char *text = setting_text(s, &copy);
        struct error why;
        if (*place && *text && checks[i].check(s->key, text, &why))
            return error_set(err, RDMAD_E_CONFIG, "%s: %s", place, why.text);
    }
    return RDMAD_OK;
}

struct config_places *config_places_new(void) {
    return calloc(1, sizeof(struct config_places) +
                         settings_count * sizeof(((struct config_places *)0)->at[0]));
}

void config_place(struct config_places *places, const struct setting *s, const char *place) {
    if (places)
        snprintf(places->at[s - settings], sizeof(places->at[0]), "%s", place);
}
