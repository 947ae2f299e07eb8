/* SPDX-License-Identifier: MIT */
/*
 * upgrades.c - rdmactl upgrade, files in one another's place.
 */
#include "tests/integration/upgrades.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

json_t *upgrade_try(struct tdaemon *d, char *said, size_t size) {
    char path[512];
    const char *argv[] = {build_path("rdmactl/rdmactl", path, sizeof(path)),
                          "-j",
                          "-d",
                          tdaemon_dir(d),
                          "upgrade",
                          NULL};
    if (run_program(argv, said, size))
        return NULL;
    json_t *answer = json_loads(said, 0, NULL);
    CHECK(answer, "rdmactl says no JSON: %s", said);
    return answer;
}

double upgrade_now(struct tdaemon *d) {
    char said[4096];
    json_t *answer = upgrade_try(d, said, sizeof(said));
    CHECK(answer, "%s", said);
    double ms = json_number_value(json_object_get(answer, "pause_ms"));
    CHECK(ms > 0 && json_string_value(json_object_get(answer, "from")) &&
              json_integer_value(json_object_get(answer, "pid")) == tdaemon_pid(d),
          "%s", said);
    json_decref(answer);
    return ms;
}

/* ---- a program file -------------------------------------------------------------------------- */

static void fresh_name(const struct program_file *f, char out[128]) {
    snprintf(out, 128, "%s.new", f->path);
}

void program_file_put(const struct program_file *f, const char *from) {
    char fresh[128];
    fresh_name(f, fresh);
    const char *argv[] = {"/bin/cp", from, fresh, NULL};
    CHECK(run_program(argv, NULL, 0) == 0, "%s cannot be copied", from);
    CHECK(rename(fresh, f->path) == 0, "%s: %s", f->path, strerror(errno));
}

void program_file_make(struct program_file *f, const char *from) {
    strcpy(f->dir, "/tmp/rdmad-copy-XXXXXX");
    CHECK(mkdtemp(f->dir), "%s", strerror(errno));
    snprintf(f->path, sizeof(f->path), "%s/rdmad", f->dir);
    CHECK(chmod(f->dir, 0755) == 0, "%s", strerror(errno)); /* the porter is another user's */
    program_file_put(f, from);
    tdaemon_use(f->path);
}

void program_file_script(const struct program_file *f, const char *script, mode_t mode) {
    char fresh[128];
    fresh_name(f, fresh);
    FILE *out = fopen(fresh, "we");
    CHECK(out && fputs(script, out) >= 0 && fclose(out) == 0 && chmod(fresh, mode) == 0 &&
              rename(fresh, f->path) == 0,
          "%s: %s", fresh, strerror(errno));
}

void program_file_remove(const struct program_file *f) {
    unlink(f->path);
    rmdir(f->dir);
}

void program_file_expect(const struct program_file *f, const struct tdaemon *d) {
    char exe[32];
    struct stat is, is_to_be;
    snprintf(exe, sizeof(exe), "/proc/%d/exe", (int)tdaemon_pid(d));
    CHECK(stat(exe, &is) == 0 && stat(f->path, &is_to_be) == 0, "%s", strerror(errno));
    CHECK(is.st_ino == is_to_be.st_ino && is.st_dev == is_to_be.st_dev,
          "the daemon at %s runs another file than %s", tdaemon_listen(d), f->path);
}

void settings_write(const char *path, const char *settings) {
    FILE *f = fopen(path, "we");
    CHECK(f && fputs(settings, f) >= 0 && fclose(f) == 0, "%s: %s", path, strerror(errno));
}

struct tdaemon *start_with_settings(const char *host, char path[64], const char *settings) {
    snprintf(path, 64, "/tmp/rdmad-upgrade-XXXXXX");
    int fd = mkstemp(path);
    CHECK(fd >= 0, "%s: %s", path, strerror(errno));
    close(fd);
    settings_write(path, settings);
    return tdaemon_start(host, (const char *const[]){"--config", path, NULL});
}
