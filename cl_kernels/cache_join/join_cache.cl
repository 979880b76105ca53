// Rows of new tokens written into their cache, which is copied to a tensor with the newest row in all places behind it. A
// ticket is a head of a text.
//
// rows          [batch][heads][tokens][depth] new ones
// lengths       places of a cache, then of each text the place of its first new token
// state         the caches, [batch][heads][places][depth]; this one begins batch * places * at elements behind its start
// out           [batch][heads][places][depth]
// type          of what the caches hold: a code of element_types.clh; itemsize: bytes of an element
// batch, heads, tokens, places, depth   sizes
//
// Exact, but for the rounding to the caches' type.
#include "element_types.clh"
#include "neighbours.clh"

static void join_cache(__global const join_cache_desc* d, __global char** banks, __global char* scratch, const int ticket,
                       __global const post_step* post, const int posts) {
  const long places = d->places, depth = d->depth, first = AT(const int, banks, d->lengths)[1 + ticket / d->heads];
  if (first < 0 || first >= places) return;
  const long before = first * depth, added = min((long)d->tokens, places - first) * depth, end = before + added;
  __global char* cache = AT(char, banks, d->state) + (d->batch * places * d->at + ticket * places * depth) * d->itemsize;
  __global float* to = AT(float, banks, d->out) + ticket * places * depth;
  floats_as(d->type, AT(const float, banks, d->rows) + ticket * d->tokens * depth, cache + before * d->itemsize, (int)added);
  if (d->type == TYPE_F32) {
    copy_neighbours(cache, (__global char*)to, end * 4);
  } else {
    as_floats(d->type, cache, to, (int)end);
  }
  for (long i = end; i < places * depth; i += depth)
    copy_neighbours((__global const char*)(to + end - depth), (__global char*)(to + i), depth * 4);
}
