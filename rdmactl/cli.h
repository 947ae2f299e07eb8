/* SPDX-License-Identifier: MIT */
/*
 * cli.h - what every command of rdmactl shares: the command table, options, errors, output.
 *
 * A command's run function returns the exit code: 0 good, 1 failed, 2 usage. Everything it has to
 * say goes through here, so that -j is one JSON document on standard output whatever happens:
 * {"schema": 1, ...} or {"schema": 1, "error": {"code", "text"}}.
 */
#ifndef RDMACTL_CLI_H
#define RDMACTL_CLI_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXIT_GOOD 0
#define EXIT_FAILED 1
#define EXIT_USAGE 2

struct cli {
    const char *dir;         /* the daemon's runtime directory */
    const char *default_dir; /* what dir is if it was not given; NULL: it was */
    bool json;
    uint64_t timeout_ms; /* how long an answer may take; 0: the command's own default */
};
extern struct cli cli;

struct command {
    const char *object;
    const char *verb; /* NULL: the object is the whole command */
    int (*run)(const struct command *self, int argc, char **argv);
    const char *arguments; /* for the usage line */
    const char *help;      /* one line */
};

int cmd_status(const struct command *self, int argc, char **argv);
int cmd_show(const struct command *self, int argc, char **argv);
int cmd_device_show(const struct command *self, int argc, char **argv);
int cmd_lease_revoke(const struct command *self, int argc, char **argv);
int cmd_peer_add(const struct command *self, int argc, char **argv);
int cmd_policy_show(const struct command *self, int argc, char **argv);
int cmd_limit_show(const struct command *self, int argc, char **argv);
int cmd_limit_set(const struct command *self, int argc, char **argv);
int cmd_session_kick(const struct command *self, int argc, char **argv);
int cmd_session_pause(const struct command *self, int argc, char **argv);
int cmd_session_resume(const struct command *self, int argc, char **argv);
int cmd_drain(const struct command *self, int argc, char **argv);
int cmd_upgrade(const struct command *self, int argc, char **argv);
int cmd_log(const struct command *self, int argc, char **argv);
int cmd_reload(const struct command *self, int argc, char **argv);
int cmd_share(const struct command *self, int argc, char **argv);
int cmd_fetch(const struct command *self, int argc, char **argv);
int cmd_bench_serve(const struct command *self, int argc, char **argv);
int cmd_bench(const struct command *self, int argc, char **argv);
int cmd_doctor(const struct command *self, int argc, char **argv);
int cmd_top(const struct command *self, int argc, char **argv);
int cmd_events(const struct command *self, int argc, char **argv);
int cmd_trace(const struct command *self, int argc, char **argv);
int cmd_why(const struct command *self, int argc, char **argv);
int cmd_metrics(const struct command *self, int argc, char **argv);
int cmd_config_check(const struct command *self, int argc, char **argv);
int cmd_config_show(const struct command *self, int argc, char **argv);

/* ---- options (args.c) ----------------------------------------------------------------------- */

enum opt_kind {
    OPT_FLAG,  /* bool */
    OPT_TEXT,  /* const char *, UTF-8: it may come into JSON, which has nothing else */
    OPT_PATH,  /* const char *, as file systems have it */
    OPT_COUNT, /* uint64_t */
    OPT_BYTES, /* uint64_t: 4096, 64K, 1M, 2G */
    OPT_TIME,  /* uint64_t milliseconds: 500ms, 2s, 5m, 1h; a bare number is seconds */
};

struct opt {
    const char *name; /* without the dashes; NULL ends the list */
    char letter;      /* 0: none */
    enum opt_kind kind;
    void *to;
    uint64_t min, max; /* numbers */
    const char *arg;   /* what the value is called in --help */
    const char *help;
};

struct positionals {
    const char *names; /* "FILE", for messages */
    unsigned min, max;
    bool paths;          /* as OPT_PATH; else as OPT_TEXT */
    const char **values; /* room for max */
    unsigned count;      /* out */
};

/* Parses what follows the verb, the global options among it. Returns ARGS_RUN, or the exit code to
 * end with (--help was printed, or a usage error). */
#define ARGS_RUN (-1)
int args_parse(const struct command *self, const struct opt *opts, struct positionals *pos,
               int argc, char **argv);

/* -j or --json: it is that wherever it stands, and no option's value. */
bool args_is_json(const char *word);

/* The value of --timeout before the object. */
int args_timeout(const char *text);

bool args_count(const char *text, uint64_t *out);
bool args_bytes(const char *text, uint64_t *out);
bool args_time_ms(const char *text, uint64_t *out);
/* A user by number or name. */
bool args_user(const char *text, uint64_t *uid);

/* ---- errors and output (out.c) -------------------------------------------------------------- */

/* Both report and return the exit code. code is "RDMAD_E_...". With -j the report is the document,
 * or goes to standard error if that is out. */
int cli_fail(const char *code, const char *format, ...) __attribute__((format(printf, 2, 3)));
int cli_fail_errno(const char *what); /* a system call has failed, of that file */
int cli_usage_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* What else is said on standard error, with or without -j, fit for a terminal. */
void cli_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints {"schema": 1} and all of doc, which it takes over: the one document of -j. Returns
 * EXIT_GOOD. */
int cli_print_json(json_t *doc);

#define CELL_MAX 48
const char *cli_human_bytes(char buf[CELL_MAX], double bytes);
const char *cli_human_seconds(char buf[CELL_MAX], double seconds);
const char *cli_human_us(char buf[CELL_MAX], double microseconds);
/* Text from outside, of which a terminal obeys nothing: controls (C0, DEL, C1) and bytes that are
 * no UTF-8 are '?'. As many whole characters as there is room for; buf may be text. */
const char *cli_safe_text(char *buf, size_t size, const char *text);
/* So every text in value, but for the ends of lines. */
void cli_safe_json(json_t *value);

/* 0 where there is none. */
double cli_number(const json_t *row, const char *key);
/* Of a text member for a table; "-" if it is empty or missing. */
const char *cli_text(const json_t *row, const char *key);

/* Whether only programs of this machine reach what listens on host. */
bool cli_is_loopback(const char *host);

/* Of a clock that does not go back. */
double cli_now_s(void);

/* ---- how far something is (progress.c) ------------------------------------------------------- */

/* A bar with rate and time left on standard error while something takes longer, if that is a
 * terminal. before: of done, what there was at the start, which tells nothing of the rate. total 0:
 * it is not known. */
struct progress {
    double start_s, shown_s, rate; /* bytes a second, of late */
    uint64_t before, shown_done;
    bool shown;
};
void progress_start(struct progress *p, uint64_t before);
void progress_show(struct progress *p, uint64_t done, uint64_t total);
void progress_end(struct progress *p, uint64_t done, uint64_t total);

/* ---- tables (out.c) -------------------------------------------------------------------------- */

/* A table whose columns are as wide as their widest cell; numbers stand right. The last column has
 * all of its text; elsewhere a long one ends in dots. */
struct table;
struct table *table_new(unsigned columns);
void table_cell(struct table *t, bool right, const char *text); /* row by row */
void table_print(struct table *t);                              /* and frees it */
/* Of a table for which there is so much room (at least one row, the head; t may be NULL) it will
 * print what fits: whole columns, the first ones. Returns how many rows and columns do not. */
struct table_rest {
    unsigned rows, columns;
};
struct table_rest table_fit(struct table *t, unsigned rows, unsigned width);

/* ---- shows of lists (listing.c) -------------------------------------------------------------- */

struct listing {
    const char *object, *of; /* what is shown, and of which one only; NULL: of all */
    bool more;               /* what only is shown when it is asked for */
    const char *where;       /* KEY=VALUE that rows must have; NULL: any */
    uint64_t interval_ms;    /* again after so long; 0: once */
};
/* Their options. */
#define LISTING_OPTS(l)                                                          \
    {"where", 'w', OPT_TEXT,    &(l)->where,                                     \
     0,       0,   "KEY=VALUE", "only rows of which that is so; keys as of -j"}, \
    {                                                                            \
        "watch", 'W', OPT_TIME, &(l)->interval_ms, 100, 3600000, "TIME",         \
            "again and again, until interrupted"                                 \
    }
/* Has show print it, once or until a signal comes or it fails; returns the exit code. */
int listing_show(const struct listing *l, int (*show)(const struct listing *l));
/* Before something is printed by show: clears a terminal that is watched. */
void listing_begin(void);
/* Leaves the rows that are asked for; fails, and reports, if they have no such key. */
int listing_filter(const struct listing *l, json_t *list);
/* Of a row; "audit.ops" looks into an object. */
const json_t *listing_value(const json_t *row, const char *key);

/* ---- asking the daemon (client.c) ----------------------------------------------------------- */

struct failure {
    char code[40];
    char text[512];
};

/* How long an answer may take when --timeout is not given: to a look, to a look at devices, and to
 * what changes something or waits for somebody else: what is done after it was said to have failed
 * is a surprise. */
#define PATIENCE_LOOK_MS 5000u
#define PATIENCE_DEVICES_MS 30000u
#define PATIENCE_ACT_MS 60000u

/* Calls method over control.sock; takes over params (NULL: none). Returns the result, the caller's,
 * or NULL and *why. */
json_t *daemon_try(const char *method, json_t *params, uint64_t patience, struct failure *why);
/* The same in two steps, for several calls on one connection: a descriptor, or -1. */
int daemon_dial(uint64_t patience, struct failure *why);
json_t *daemon_ask(int fd, const char *method, json_t *params, uint64_t patience,
                   struct failure *why);
/* As daemon_try, reporting the failure itself. */
json_t *daemon_call(const char *method, json_t *params, uint64_t patience);

/* ---- a daemon that is there and does not answer (patience.c) -------------------------------- */

/* A connection to the socket of that name in the runtime directory, or -1 and errno (EAGAIN: it is
 * not taken within the time). */
int daemon_connect(const char *name, int type, uint64_t timeout_ms);
/* Whether anybody listens for clients there: an rdmad, or the manager that starts one. */
bool daemon_listens(void);
/* What the daemon's process is doing, as seen from outside, and what to do about it. */
const char *daemon_state(char *buf, size_t size);
/* What --timeout says, or else otherwise_ms. */
uint64_t patience_ms(uint64_t otherwise_ms);
/* Around calls of the library that wait for the daemon "to WHAT": when they take longer, that is
 * reported and the program ends with EXIT_FAILED. otherwise_ms 0: only if --timeout is given. */
void patience_begin(const char *what, uint64_t otherwise_ms);
void patience_end(void);
/* What was asked for is done: later waits that take too long are reported as before, and the
 * program ends with EXIT_GOOD. */
void patience_done(void);

struct rdmad_session;
/* rdmad_open of the daemon in cli.dir, with patience; EXIT_GOOD, or reports. */
int cli_session_open(const char *name, int64_t spin_us, struct rdmad_session **out);
/* The same, without a report; returns what rdmad_open does. */
int cli_session_try(const char *name, int64_t spin_us, struct rdmad_session **out);
/* Reports what the library said last of that session (NULL: of none); returns EXIT_FAILED. */
int cli_fail_rdmad(const struct rdmad_session *session, int rc);

/* ---- signals (signals.c) -------------------------------------------------------------------- */

/* From now on SIGINT, SIGTERM and SIGHUP do not kill but make this descriptor readable. */
int signals_catch(void);
/* The signal that came, 0 if none; after that, the next one kills. */
int signals_take(int fd);

#endif
