/* SPDX-License-Identifier: MIT */
/*
 * main.c - rdmactl [-d DIR] [-j] OBJECT VERB, in the manner of iproute2. The table of commands is
 * here; each command is a file of its own, cmd_*.c.
 */
#include "common/runtime_dir.h"
#include "rdmactl/cli.h"
#include "rdmactl/cluster.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct cli cli;

static const struct command commands[] = {
    {"status", NULL, cmd_status, "", "What the daemon is, has and did."},
    {"device", "show", cmd_device_show, "[-v]",
     "RDMA devices, ports and GIDs, and why each is or is not used."},
    {"session", "show", cmd_show, "", "Client processes and what each of them holds."},
    {"session", "kick", cmd_session_kick, "ID [--why TEXT]",
     "Ends a session; its program is told why."},
    {"session", "pause", cmd_session_pause, "ID [--why TEXT]",
     "Takes nothing from a session's rings until it is resumed."},
    {"session", "resume", cmd_session_resume, "ID", "Ends a session's pause."},
    {"user", "show", cmd_show, "", "Users, with what all sessions of each have done."},
    {"pool", "show", cmd_show, "", "Memory pools of the sessions."},
    {"lease", "show", cmd_show, "[--all]", "Leases granted here; --all adds those that ended."},
    {"lease", "revoke", cmd_lease_revoke, "ID",
     "Ends a lease; returns when nobody can touch its memory any more."},
    {"peer", "show", cmd_show, "", "Other daemons that this one is connected to."},
    {"peer", "add", cmd_peer_add, "HOST:PORT", "Connects to another daemon now."},
    {"link", "show", cmd_show, "", "Data paths to peers."},
    {"channel", "show", cmd_show, "",
     "Two-sided connections of sessions here, and what they moved."},
    {"service", "show", cmd_show, "", "Names that sessions here listen on."},
    {"policy", "show", cmd_policy_show, "[UID] [--socket TENANT]",
     "What a user may do, and which rule says so."},
    {"limit", "show", cmd_limit_show, "[uid:N[@TENANT]|peer:NAME]",
     "Limits and shares, and what is used of them."},
    {"limit", "set", cmd_limit_set, "uid:N[@TENANT]|peer:NAME KEY=VALUE...",
     "Sets limits and shares until the daemon ends."},
    {"share", NULL, cmd_share, "FILE|DIR|- [--name N] [--ttl 60s] [--once] [--raw]",
     "Shares FILE's bytes (- : standard input) under a read-only lease; prints its URI and holds "
     "it."},
    {"fetch", NULL, cmd_fetch, "URI [-o FILE|DIR] [--no-resume] [--max-entries N] [--max-depth N]",
     "Reads a lease's memory by one-sided READs, to FILE or standard output."},
    {"bench", "serve", cmd_bench_serve, "[--ttl T] [-s MAXBYTES]",
     "Grants memory to measure against, prints its URI and answers until interrupted."},
    {"bench", "nop", cmd_bench, "[options] [URI]", "Round trips to the own daemon and back."},
    {"bench", "read", cmd_bench, "[options] URI", "One-sided READs of a bench serve's lease."},
    {"bench", "write", cmd_bench, "[options] URI",
     "One-sided WRITEs: a ping-pong at depth 1, a stream at -q 2 and more."},
    {"bench", "send", cmd_bench, "[options] URI", "Messages to a bench serve, by a channel."},
    {"bench", "cas", cmd_bench, "[options] URI", "Compare-and-swaps of 8 bytes."},
    {"bench", "fadd", cmd_bench, "[options] URI", "Fetch-and-adds of 8 bytes."},
    {"doctor", NULL, cmd_doctor, "", "Checks what commonly goes wrong, and says what to do."},
    {"top", NULL, cmd_top, "[-b] [-n COUNT] [-i TIME] [-s KEY] [-u|-l|-p]",
     "Sessions, users, links or peers by what they move right now."},
    {"log", NULL, cmd_log, "error|warning|notice|info|debug",
     "What is logged from now on, until the next reload."},
    {"events", NULL, cmd_events, "[-f] [--since 1h] [--kind KINDS] [--of THING[:ID]]",
     "What changed, was refused and ended, as far as it is remembered."},
    {"trace", NULL, cmd_trace,
     "[-n COUNT] [--for TIME] [--session ID] [--uid UID] [--peer NAME|ID]",
     "Ops as they end, one a line, with the way they took and how long it took them."},
    {"why", NULL, cmd_why, "session|lease|attach|link|peer|channel|op ID",
     "How something stands, and what is remembered of it, in sentences."},
    {"metrics", NULL, cmd_metrics, "[-f FORMAT]",
     "Counters, gauges and histograms as OpenMetrics or in the Prometheus text format."},
    {"config", "check", cmd_config_check, "FILE", "Reads a configuration as the daemon would."},
    {"config", "show", cmd_config_show, "", "The settings the running daemon uses."},
    {"cluster", "init", cmd_cluster_init, "[--name NAME] [--address HOST:PORT] [--ttl 24h]",
     "Makes a cluster's CA and this node's identity; prints a line by which a node joins."},
    {"cluster", "join", cmd_cluster_join, "HOST:PORT TOKEN|- [--name NAME]",
     "Gets this node an identity of the cluster whose daemon is there."},
    {"cluster", "show", cmd_cluster_show, "",
     "This node's identity, whom it trusts, and what its CA has given out."},
    {"cluster", "token", cmd_cluster_token, "[--ttl 24h] [--address HOST:PORT]",
     "Prints a line by which one more node joins."},
    {"cluster", "revoke", cmd_cluster_revoke, "NAME",
     "Ends what the CA has given to that node, once and for all."},
    {"reload", NULL, cmd_reload, "",
     "Has the daemon read its settings again; fails with what is wrong with them."},
    {"drain", NULL, cmd_drain, "[--off] [--wait 30s]",
     "Has the daemon take nothing new, and waits until it may be stopped."},
    {"upgrade", NULL, cmd_upgrade, "[BINARY]",
     "Has the daemon give way to its program file as it is now, or to another; programs only wait "
     "a "
     "moment."},
};
#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

static int print_usage(void) {
    printf("Usage: rdmactl [-d DIR] [-j] OBJECT VERB [options]\n\n");
    for (size_t i = 0; i < COMMANDS; i++) {
        const struct command *c = &commands[i];
        char words[64];
        snprintf(words, sizeof(words), "%s%s%s", c->object, c->verb ? " " : "",
                 c->verb ? c->verb : "");
        printf("  %-15s %s\n", words, c->help);
    }
    printf("\n  -d, --dir DIR   the daemon's runtime directory (else $RDMAD_RUNTIME_DIR, else "
           "/run/rdmad,\n"
           "                  else $XDG_RUNTIME_DIR/rdmad)\n"
           "      --timeout SECONDS  how long an answer of the daemon may take (5 s to a look)\n"
           "  -j, --json      one JSON document on standard output, errors included\n"
           "      --version   the version of rdmactl\n"
           "  -h, --help      this text, or that of a command; as `help OBJECT VERB`\n\n"
           "Exit status: 0 good, 1 failed, 2 usage.\n");
    return EXIT_GOOD;
}

static int unknown_object(const char *word) {
    char list[256] = "";
    for (size_t i = 0; i < COMMANDS; i++) {
        if (i && !strcmp(commands[i].object, commands[i - 1].object))
            continue;
        size_t used = strlen(list);
        snprintf(list + used, sizeof(list) - used, "%s%s", used ? ", " : "", commands[i].object);
    }
    if (!word)
        return cli_usage_error("an object is missing; there are: %s", list);
    return cli_usage_error("unknown object \"%s\"; there are: %s", word, list);
}

static int unknown_verb(const char *object, const char *word) {
    char list[128] = "";
    for (size_t i = 0; i < COMMANDS; i++) {
        if (strcmp(commands[i].object, object) != 0)
            continue;
        size_t used = strlen(list);
        snprintf(list + used, sizeof(list) - used, "%s%s", used ? ", " : "", commands[i].verb);
    }
    if (!word)
        return cli_usage_error("%s needs a verb: %s", object, list);
    return cli_usage_error("unknown verb \"%s\" for %s; there are: %s", word, object, list);
}

static int print_verbs(const char *object) {
    for (size_t i = 0; i < COMMANDS; i++) {
        const struct command *c = &commands[i];
        if (!strcmp(c->object, object))
            printf("rdmactl %s %s %s\n    %s\n", object, c->verb, c->arguments, c->help);
    }
    return EXIT_GOOD;
}

/* argv[0] is the object. As in iproute2, an object alone is shown. */
static int run_command(int argc, char **argv) {
    bool known = false;
    const char *verb = argc > 1 ? argv[1] : NULL;
    bool no_verb = !verb || verb[0] == '-';
    bool help = verb && (!strcmp(verb, "-h") || !strcmp(verb, "--help"));
    for (size_t i = 0; i < COMMANDS; i++) {
        const struct command *c = &commands[i];
        if (strcmp(c->object, argv[0]) != 0)
            continue;
        known = true;
        if (!c->verb)
            return c->run(c, argc - 1, argv + 1);
        if (help)
            return print_verbs(argv[0]);
        if (no_verb && !strcmp(c->verb, "show") && strcmp(c->object, "config") != 0)
            return c->run(c, argc - 1, argv + 1);
        if (!no_verb && !strcmp(c->verb, verb))
            return c->run(c, argc - 2, argv + 2);
    }
    return known ? unknown_verb(argv[0], no_verb ? NULL : verb) : unknown_object(argv[0]);
}

/* help [OBJECT [VERB]]: as OBJECT VERB --help. */
static int help(int argc, char **argv) {
    char *words[4] = {argc > 0 ? argv[0] : NULL, argc > 1 ? argv[1] : (char *)"--help",
                      (char *)"--help"};
    if (argc == 0)
        return print_usage();
    if (argc > 2)
        return cli_usage_error("unexpected argument \"%s\"; usage: rdmactl help [OBJECT [VERB]]",
                               argv[2]);
    return run_command(argc + 1, words);
}

/* Leading options; returns the index of the object, or sets *exit_code. */
static int leading_options(int argc, char **argv, int *exit_code) {
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i];
        if (args_is_json(a)) {
            cli.json = true;
        } else if (!strcmp(a, "-h") || !strcmp(a, "--help")) {
            *exit_code = print_usage();
            return 0;
        } else if (!strcmp(a, "help")) {
            *exit_code = help(argc - i - 1, argv + i + 1);
            return 0;
        } else if (!strcmp(a, "--version") || !strcmp(a, "-V")) {
            printf("rdmactl " RDMAD_VERSION "\n");
            *exit_code = EXIT_GOOD;
            return 0;
        } else if (!strncmp(a, "--dir=", 6)) {
            cli.dir = a + 6;
        } else if (!strncmp(a, "--timeout=", 10)) {
            if ((*exit_code = args_timeout(a + 10)) != ARGS_RUN)
                return 0;
        } else if (!strcmp(a, "-d") || !strcmp(a, "--dir") || !strcmp(a, "--timeout")) {
            bool dir = a[1] == 'd' || a[2] == 'd';
            if (++i == argc || args_is_json(argv[i])) {
                *exit_code = cli_usage_error("%s needs a value: %s", a, dir ? "DIR" : "SECONDS");
                return 0;
            }
            if (dir)
                cli.dir = argv[i];
            else if ((*exit_code = args_timeout(argv[i])) != ARGS_RUN)
                return 0;
        } else if (!strncmp(a, "-d", 2)) {
            cli.dir = a + 2;
        } else if (a[0] == '-') {
            *exit_code = cli_usage_error("unknown option %s before the object; rdmactl --help", a);
            return 0;
        } else {
            return i;
        }
    }
    *exit_code = unknown_object(NULL);
    return 0;
}

/* What is opened next would stand in for a standard descriptor that is closed, and be read, or
 * written to, as that. These fail when they are. */
static void open_standard(void) {
    for (int fd = 0; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0)
            (void)open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    }
}

int main(int argc, char **argv) {
    open_standard();
    const char *dir = getenv("RDMAD_RUNTIME_DIR");
    char own[RDMAD_RUNTIME_DIR_MAX];
    if (!dir || !*dir)
        dir = cli.default_dir = rdmad_default_dir("control.sock", own);
    cli.dir = dir;
    /* Known before anything can go wrong, so that the error has the right form. */
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (args_is_json(argv[i]))
            cli.json = true;
    }
    int code = EXIT_GOOD;
    int object = leading_options(argc, argv, &code);
    if (object)
        code = run_command(argc - object, argv + object);
    if (fflush(stdout) || ferror(stdout)) {
        fprintf(stderr, "rdmactl: writing to standard output failed\n");
        return code ? code : EXIT_FAILED;
    }
    return code;
}
