// Writes the keys and values of new tokens into their caches, at places that are known when it runs. A ticket is a head of
// a text.
//
// keys, values         [batch][heads][tokens][depth], the values with width
// lengths              places of a cache, then of each text the place of its first new token
// state                the caches, [batch][heads][places][depth]; those of the keys begin batch * places * keys_at floats
//                      behind its start, those of the values likewise
// batch, heads, tokens, depth, width   sizes
//
// Exact.
#include "tile.clh"

static void append_cache(__global const append_cache_desc* d, __global char** banks, __global char* scratch,
                         const int ticket, __global const post_step* post, const int posts) {
  __global const int* lengths = AT(const int, banks, d->lengths);
  const long places = lengths[0], first = lengths[1 + ticket / d->heads], texts = d->batch * places;
  const long row = ticket * places + first;
  __global float *state = AT(float, banks, d->state);
  __global float *keys = state + texts * d->keys_at + row * d->depth, *values = state + texts * d->values_at + row * d->width;
  __global const float* k = AT(const float, banks, d->keys) + (long)ticket * d->tokens * d->depth;
  __global const float* v = AT(const float, banks, d->values) + (long)ticket * d->tokens * d->width;
  if (first < 0) return;
  const long count = clamp(places - first, 0L, (long)d->tokens), floats = count * d->depth, others = count * d->width;
  for (long i = 0; i < floats / 16; i++) STORE_LOOSE(keys + i * 16, LOAD_LOOSE(k + i * 16));
  for (long i = floats / 16 * 16; i < floats; i++) keys[i] = k[i];
  for (long i = 0; i < others / 16; i++) STORE_LOOSE(values + i * 16, LOAD_LOOSE(v + i * 16));
  for (long i = others / 16 * 16; i < others; i++) values[i] = v[i];
}
