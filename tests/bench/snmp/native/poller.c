/*
 * Asks one agent on the loopback at fixed times, as a poller does, and measures how long it waits.
 *
 * poller PORT PROCESS INTERVAL COUNT REQUESTS
 *
 * REQUESTS is a file as load.c reads it. One request is sent each INTERVAL microseconds, plus a random part of
 * as many, and the next one not before its answer. The time of an answer counts from when its request was due,
 * so that one which could not be sent because the agent was slow counts, too. It prints the median, the 99th
 * percentile and the longest of these times, in microseconds; and the same of the processor time that the agent,
 * whose process has the number PROCESS, used meanwhile: how long the answer takes where nothing else needs the
 * processor. What is not answered within five seconds ends it.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

enum { LARGEST = 65536, PATIENCE_MS = 5000 };

static double clocked(clockid_t clock)
{
    struct timespec time;
    if (clock_gettime(clock, &time) != 0) {
        perror("clock_gettime");
        exit(1);
    }
    return (double) time.tv_sec + (double) time.tv_nsec / 1e9;
}

static double now(void)
{
    return clocked(CLOCK_MONOTONIC);
}

static void sleep_until(double moment)
{
    struct timespec time = { .tv_sec = (time_t) moment };
    time.tv_nsec = (long) ((moment - (double) time.tv_sec) * 1e9);
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
}

static int ascending(const void *left, const void *right)
{
    double difference = *(const double *) left - *(const double *) right;
    return (difference > 0) - (difference < 0);
}

static void print(double *times, size_t count)
{
    qsort(times, count, sizeof *times, ascending);
    printf("%.1f %.1f %.1f\n", times[count / 2], times[count * 99 / 100], times[count - 1]);
}

static int connected(const char *port)
{
    struct sockaddr_in agent = { .sin_family = AF_INET, .sin_port = htons((uint16_t) atoi(port)) };
    int agent_socket = socket(AF_INET, SOCK_DGRAM, 0);
    agent.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (agent_socket < 0 || connect(agent_socket, (struct sockaddr *) &agent, sizeof agent) != 0) {
        perror("connect");
        exit(1);
    }
    return agent_socket;
}

static uint16_t next_request(FILE *file, unsigned char *octets)
{
    uint16_t length;
    if (fread(&length, sizeof length, 1, file) != 1) {
        rewind(file);
        if (fread(&length, sizeof length, 1, file) != 1)
            exit(1);
    }
    if (fread(octets, 1, length, file) != length)
        exit(1);
    return length;
}

int main(int count, char **arguments)
{
    static unsigned char octets[LARGEST], answer[LARGEST];
    if (count != 6) {
        fprintf(stderr, "poller PORT PROCESS INTERVAL COUNT REQUESTS\n");
        return 2;
    }
    double interval = atof(arguments[3]) / 1e6, due = now();
    long wanted = atol(arguments[4]);
    FILE *file = fopen(arguments[5], "rb");
    double *times = calloc((size_t) wanted, sizeof *times), *used = calloc((size_t) wanted, sizeof *used);
    clockid_t processor;
    int agent = connected(arguments[1]);
    struct pollfd readable = { .fd = agent, .events = POLLIN };
    if (file == NULL || times == NULL || used == NULL || wanted < 1
        || clock_getcpuclockid((pid_t) atol(arguments[2]), &processor) != 0) {
        perror("poller");
        return 1;
    }
    for (long place = 0; place < wanted; place++) {
        uint16_t length = next_request(file, octets);
        due += interval * (1 + (double) rand() / RAND_MAX);
        sleep_until(due);
        /* A sleeper is woken late by its own machine: that is not the agent's time. */
        double awake = now(), start = awake - due < interval ? awake : due;
        double before = clocked(processor);
        if (send(agent, octets, length, 0) < 0 || poll(&readable, 1, PATIENCE_MS) <= 0
            || recv(agent, answer, sizeof answer, 0) < 0) {
            perror("poller");
            return 1;
        }
        times[place] = (now() - start) * 1e6;
        used[place] = (clocked(processor) - before) * 1e6;
    }
    print(times, (size_t) wanted);
    print(used, (size_t) wanted);
    return 0;
}
