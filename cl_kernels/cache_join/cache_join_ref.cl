// Rows of new tokens written into their cache, which is copied to a tensor with the newest row in all places behind it.
//
// Grid: one work-item an element of out0, n of them. in0: new rows, [batch][heads][tokens][depth]; in1: places of a cache,
// then of each text the place of its first new token; in2: the caches; out0: [batch][heads][places][depth]. table: heads,
// tokens, depth, places, elements a place in front of the cache, views of in0 and out0 (element offset, pitches of four
// axes). The cache is [batch][heads][places][depth]; what lies in front of it grows with the places, too. LOAD, STORE,
// LOAD_CACHE and STORE_CACHE read and write an element of a tensor and of the caches as a float. A work-item writes the
// element of the cache that it reads, or none. Error: that of rounding to the type of the caches.
#include "cache.clh"

__kernel void cache_join_ref(const int n, TENSOR(in0), TENSOR(in1), TENSOR(in2), TENSOR(out0), __global const int* table) {
  const int id = get_global_id(0);
  if (id >= n) return;
  const int heads = table[0], tokens = table[1], depth = table[2], places = table[3], line = id / depth;
  int at[4] = {line / (places * heads), line / places % heads, line % places, id % depth};
  __global CACHE* cache = BASE_OF(CACHE, in2) + (long)(n / (heads * places * depth)) * places * table[4] + id;
  const int to = element(table + 5 + VIEW, at), row = at[2] - BASE_OF(const int, in1)[1 + at[0]];
  float value;
  if (row >= 0) {
    at[2] = min(row, tokens - 1);
    value = LOAD(BASE_OF(const T, in0), element(table + 5, at));
    if (row < tokens) STORE_CACHE(cache, 0, value);
  }
  if (row < tokens) value = LOAD_CACHE(cache, 0);
  STORE(BASE_OF(T, out0), to, value);
}
