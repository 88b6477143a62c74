/*
 * Asks one agent on the loopback the same requests again and again, as fast as it answers.
 *
 * load PORT WINDOW COUNT REQUESTS
 *
 * REQUESTS is a file of requests, each after its length (u16, native byte order). COUNT of them are sent, from the
 * first again after the last, with up to WINDOW unanswered at a time. It looks for an answer for a while before it
 * sleeps, so that an agent that is quick does not pay for waking it. It prints how many were answered, the
 * octets of all answers, and the seconds it took; what is not answered within five seconds ends it.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { LARGEST = 65536, PATIENCE_MS = 5000 };
static const double AWAKE_SECONDS = 100e-6;

struct request {
    const unsigned char *octets;
    uint16_t length;
};

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double) time.tv_sec + (double) time.tv_nsec / 1e9;
}

static void *checked(void *memory)
{
    if (memory == NULL) {
        perror("load");
        exit(1);
    }
    return memory;
}

static size_t read_requests(const char *path, struct request **requests)
{
    FILE *file = checked(fopen(path, "rb"));
    size_t count = 0, room = 0;
    uint16_t length;
    *requests = NULL;
    while (fread(&length, sizeof length, 1, file) == 1) {
        unsigned char *octets = checked(malloc(length));
        if (fread(octets, 1, length, file) != length)
            exit(1);
        if (count == room) {
            room = room ? 2 * room : 1024;
            *requests = checked(realloc(*requests, room * sizeof **requests));
        }
        (*requests)[count++] = (struct request) { octets, length };
    }
    fclose(file);
    return count;
}

static int connected(const char *port)
{
    struct sockaddr_in agent = { .sin_family = AF_INET, .sin_port = htons((uint16_t) atoi(port)) };
    int room = 1 << 22;
    int agent_socket = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    agent.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(agent_socket, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    if (agent_socket < 0 || connect(agent_socket, (struct sockaddr *) &agent, sizeof agent) != 0) {
        perror("connect");
        exit(1);
    }
    return agent_socket;
}

/* The next answer's length; -1 if there is none in time. */
static ssize_t receive(int agent)
{
    static unsigned char answer[LARGEST];
    struct pollfd readable = { .fd = agent, .events = POLLIN };
    double asleep = now() + AWAKE_SECONDS;
    for (;;) {
        ssize_t length = recv(agent, answer, sizeof answer, 0);
        if (length >= 0)
            return length;
        if (errno != EAGAIN) {
            perror("recv");
            exit(1);
        }
        if (now() > asleep && poll(&readable, 1, PATIENCE_MS) == 0)
            return -1;
    }
}

int main(int count, char **arguments)
{
    struct request *requests;
    if (count != 5) {
        fprintf(stderr, "load PORT WINDOW COUNT REQUESTS\n");
        return 2;
    }
    long window = atol(arguments[2]), wanted = atol(arguments[3]);
    size_t known = read_requests(arguments[4], &requests);
    int agent = connected(arguments[1]);
    long sent = 0, answered = 0;
    long long octets = 0;
    double start = now();
    while (answered < wanted && known > 0) {
        for (; sent < wanted && sent - answered < window; sent++) {
            const struct request *request = &requests[(size_t) sent % known];
            if (send(agent, request->octets, request->length, 0) < 0) {
                perror("send");
                return 1;
            }
        }
        ssize_t length = receive(agent);
        if (length < 0)
            break;
        answered++;
        octets += length;
    }
    printf("%ld %lld %.6f\n", answered, octets, now() - start);
    return answered == wanted ? 0 : 1;
}
