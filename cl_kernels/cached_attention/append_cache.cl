// Writes the keys and values of new tokens into their caches, at places that are known when it runs. A ticket is a head of
// a text.
//
// keys, values         [batch][heads][tokens][depth], the values with width
// lengths              places of a cache, then of each text the place of its first new token
// state                the caches, [batch][heads][places][depth]; those of the keys begin batch * places * keys_at elements
//                      behind its start, those of the values likewise
// type                 of what the caches hold: a code of cache_numbers.clh; itemsize: bytes of an element
// batch, heads, tokens, depth, width   sizes
//
// Exact, but for the rounding to the caches' type.
#include "cache_numbers.clh"

static void append_cache(__global const append_cache_desc* d, __global char** banks, __global char* scratch,
                         const int ticket, __global const post_step* post, const int posts) {
  __global const int* lengths = AT(const int, banks, d->lengths);
  const long places = lengths[0], first = lengths[1 + ticket / d->heads], texts = d->batch * places;
  const long row = ticket * places + first;
  __global char* state = AT(char, banks, d->state);
  __global const float* k = AT(const float, banks, d->keys) + (long)ticket * d->tokens * d->depth;
  __global const float* v = AT(const float, banks, d->values) + (long)ticket * d->tokens * d->width;
  if (first < 0) return;
  const int count = clamp(places - first, 0L, (long)d->tokens);
  numbers_as(d->type, k, state + texts * d->keys_at * d->itemsize + cache_bytes(d->type, d->itemsize, row * d->depth), count * d->depth);
  numbers_as(d->type, v, state + texts * d->values_at * d->itemsize + cache_bytes(d->type, d->itemsize, row * d->width), count * d->width);
}
