// y = softmax(cap(scale q k') + bias) v for queries of new tokens over the caches of keys and values, in one walk.
//
// Grid: one work-item a text, head and token, n of them. q: [batch][heads][tokens][DEPTH], y the same with WIDTH; lengths
// and state as cached_attention_append has them, which has run; bias: 0 of the scores where there is none; sink: [heads].
// A token at place p sees the keys p - window + 1 ... p, from 0 on for window -1; all up to the last new one where it is
// not causal. table: heads, heads of the caches, tokens, elements a place in front of the keys' cache and of the values',
// causal, window, whether there is a bias and a sink, scale, cap (0: none), views of q and y (element offset,
// pitches of four axes), rows of the bias, each a float a place, from one text, head, token to the next. DEPTH, WIDTH:
// elements of a key and of a value; LANES divides both.
// Error: a score is off by (DEPTH + 4) * 2^-24 * (scale * sum |q k| + |bias|), the weights by that and by
// (|s - max| + 8) * 2^-24 relative, their sum and the result's by 2 * keys * 2^-24 more, relative to sum weight |v|.
#include "cache.clh"
#ifndef LANES
  #define LANES 16
#endif

static float cached_product(const float* q, __global const CACHE* k) {
  float part[LANES];
  for (int i = 0; i < LANES; i++) part[i] = 0.0f;
  for (int d = 0; d < DEPTH; d += LANES)
    for (int i = 0; i < LANES; i++) part[i] = fma(q[d + i], LOAD_CACHE(k, d + i), part[i]);
  float sum = 0.0f;
  for (int i = 0; i < LANES; i++) sum += part[i];
  return sum;
}

__kernel void cached_attention_ref(const int n, TENSOR(in0), TENSOR(lengths), TENSOR(state), TENSOR(bias), TENSOR(sink),
                                   TENSOR(out0), __global const int* table) {
  const int id = get_global_id(0);
  if (id >= n) return;
  const int heads = table[0], shared = table[1], tokens = table[2];
  const int batch = n / (heads * tokens);
  const int at[4] = {id / (heads * tokens), id / tokens % heads, id % tokens, 0};
  const float scale = as_float(table[9]), cap = as_float(table[10]);
  __global const int* view = table + 11;
  __global const int* lengths = BASE_OF(const int, lengths);
  const long places = lengths[0], first = lengths[1 + at[0]];
  const long last = min(places - 1, first + (table[5] ? at[2] : tokens - 1));
  const long start = table[6] < 0 ? 0 : max(0L, first + at[2] - table[6] + 1);
  const long row = (at[0] * shared + at[1] / (heads / shared)) * places;
  __global const CACHE* k = BASE_OF(const CACHE, state) + batch * places * table[3] + row * IN_CACHE(DEPTH);
  __global const CACHE* v = BASE_OF(const CACHE, state) + batch * places * table[4] + row * IN_CACHE(WIDTH);
  __global const T* query = BASE_OF(const T, in0) + element(view, at);
  __global const int* rows = view + 2 * VIEW;
  __global const float* added =
      BASE_OF(const float, bias) + ((long)at[0] * rows[0] + at[1] * rows[1] + at[2] * rows[2]) * places;
  float q[DEPTH], mixed[WIDTH];
  for (int d = 0; d < DEPTH; d++) q[d] = LOAD(query, d * view[4]);
  for (int d = 0; d < WIDTH; d++) mixed[d] = 0.0f;
  float most = table[8] ? LOAD(BASE_OF(const T, sink), at[1]) : -INFINITY, sum = table[8] ? 1.0f : 0.0f;
  for (long j = start; j <= last; j++) {
    float s = scale * cached_product(q, k + j * IN_CACHE(DEPTH));
    if (cap != 0.0f) s = cap * tanh(s / cap);
    if (table[7]) s += added[j];
    if (s == -INFINITY) continue;
    if (s > most || s != s) {
      const float less = exp(most - s);
      sum *= less;
      for (int d = 0; d < WIDTH; d++) mixed[d] *= less;
      most = s;
    }
    const float weight = exp(s - most);
    sum += weight;
    for (int d = 0; d < WIDTH; d++) mixed[d] = fma(weight, LOAD_CACHE(v, j * WIDTH + d), mixed[d]);
  }
  __global T* y = BASE_OF(T, out0) + element(view + VIEW, at);
  for (int d = 0; d < WIDTH; d++) STORE(y, d * view[VIEW + 4], sum == 0.0f ? 0.0f : mixed[d] / sum);
}
