// y[m] = sum over n of softmax(scale * q[m] k[n] + bias[m][n]) v[n], with post-operations, for GPUs without fast local memory;
// float or half tensors.
//
// Grid: one work-item a query, n of them, which goes over the keys once and keeps the running maximum and sum (Milakov and
// Gimelshein 2018, online softmax). Neighbours read the same keys and values. DEPTH and WIDTH (default 64), multiples of
// 4, are the sizes of a query and of a value. table: dims (batch..., m, e), views of y, q (of d = 0), k (of d = n = 0), v (of
// n = 0) and bias (of n = 0), keys, pitches of q and k along the depth, of k, v and bias along the keys, whether there is a
// bias.
// Error: a score s is off by (depth + 2) * 2^-24 * (scale * sum |q k| + |bias|), the weights by that and by
// (|s - max| + 8) * 2^-24 relative, their sum and the result's by 11 * keys * 2^-24 more, relative to sum weight |v|.
#ifndef DEPTH
  #define DEPTH 64
#endif
#ifndef WIDTH
  #define WIDTH 64
#endif
#include "vectors.clh"

// e^(v - top), 0 for minus infinity even where top is, too.
static float attention_weight(const float v, const float top) {
  const float4 found = post_exp((float4)(v - top));
  return v == -INFINITY ? 0.0f : found.x;
}

__kernel void attention_gpu_direct(const int n, TENSOR(in0), TENSOR(in1), TENSOR(in2), TENSOR(in3), TENSOR(out0),
                                   __global const int* table, const float scale, POST_PARAMETERS) {
  const int id = get_global_id(0);
  if (id >= n) return;
  __global const int* y = table + RANK;
  __global const int* q = y + VIEW;
  __global const int* k = q + VIEW;
  __global const int* v = k + VIEW;
  __global const int* bias = v + VIEW;
  __global const int* rest = bias + VIEW;
  int at[RANK];
  coordinates(id, table, 0, RANK - 1, at);
  at[RANK - 1] = 0;
  const int query_at = element(q, at), key_at = element(k, at), value_at = element(v, at), bias_at = element(bias, at);
  float4 query[DEPTH / 4], mixed[WIDTH / 4];
#pragma unroll
  for (int d = 0; d < DEPTH / 4; d++)
    query[d] = vector_operand(BASE_OF(const T, in0), query_at + 4 * d * rest[1], rest[1]) * scale;
#pragma unroll
  for (int e = 0; e < WIDTH / 4; e++) mixed[e] = (float4)(0.0f);
  float most = -INFINITY, sum = 0.0f;
  for (int i = 0; i < rest[0]; i++) {
    float4 products = (float4)(0.0f);
#pragma unroll
    for (int d = 0; d < DEPTH / 4; d++)
      products = fma(query[d], vector_operand(BASE_OF(const T, in1), key_at + i * rest[3] + 4 * d * rest[2], rest[2]), products);
    float s = products.x + products.y + products.z + products.w;
    if (rest[6]) s += LOAD(BASE_OF(const T, in3), bias_at + i * rest[5]);
    if (s > most || s != s) {
      const float factor = attention_weight(most, s);
      most = s;
      sum *= factor;
#pragma unroll
      for (int e = 0; e < WIDTH / 4; e++) mixed[e] *= factor;
    }
    const float weight = attention_weight(s, most);
    sum += weight;
#pragma unroll
    for (int e = 0; e < WIDTH / 4; e++)
      mixed[e] = fma((float4)(weight), vector_operand(BASE_OF(const T, in2), value_at + i * rest[4] + 4 * e * v[RANK], v[RANK]), mixed[e]);
  }
#pragma unroll
  for (int e = 0; e < WIDTH / 4; e++) {
    at[RANK - 1] = 4 * e;
    STORE4(BASE_OF(T, out0), element(y, at), POST_ALL(mixed[e] / sum, at));
  }
}
