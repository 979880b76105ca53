// Writes the keys and values of new tokens into their caches, at places that are known when the kernel runs.
//
// Grid: one work-item a text, head and token, n of them. keys: [batch][heads][tokens][depth], values: the same with
// width; lengths: places of a cache, then of each text the place of its first new token; state: the caches.
// table: heads, tokens, depth, width, elements a place in front of the keys' cache and of the values', views of keys and
// values (element offset, pitches of four axes). A cache is [batch][heads][places][depth]; what lies in front of it
// grows with the places, too. STORED: element type of the caches; LOAD, STORE_CACHE read and write one as a float.
// Error: that of rounding to the type of the caches.
#include "cache.clh"

static void append_row(__global CACHE* cache, __global const T* row, const int pitch, const int count) {
  for (int d = 0; d < count; d++) STORE_CACHE(cache, d, LOAD(row, d * pitch));
}

__kernel void cached_attention_append(const int n, TENSOR(keys), TENSOR(values), TENSOR(lengths), TENSOR(state),
                                      __global const int* table) {
  const int id = get_global_id(0);
  if (id >= n) return;
  const int heads = table[0], tokens = table[1], depth = table[2], width = table[3];
  const int batch = n / (heads * tokens);
  const int at[4] = {id / (heads * tokens), id / tokens % heads, id % tokens, 0};
  __global const int* lengths = BASE_OF(const int, lengths);
  const long places = lengths[0], place = lengths[1 + at[0]] + at[2];
  if (place < 0 || place >= places) return;
  const long row = (at[0] * heads + at[1]) * places + place;
  __global CACHE* state = BASE_OF(CACHE, state);
  __global const int* k = table + 6;
  __global const int* v = k + VIEW;
  append_row(state + batch * places * table[4] + row * IN_CACHE(depth), BASE_OF(const T, keys) + element(k, at), k[4], depth);
  append_row(state + batch * places * table[5] + row * IN_CACHE(width), BASE_OF(const T, values) + element(v, at), v[4], width);
}
