// Scores of all keys and NB vectors of 16 queries, UR keys at a time: scores[i] = scale * sum over d of k[i][d] q[d] + bias[i].
//
// Instance: NB, UR. AVX-512 holds NB * UR <= 28 accumulators, AVX2 6.
//
// k, k_row, k_step   key i, element d at k[i * k_row + d * k_step]
// queries, depth     [depth][64], a query in each lane
// keys               at least UR; the last block begins so that it is full: what it has in common with the one before is
//                    computed twice, with the same result
// scores             [keys][64]
// bias, bias_step    0, or floats from one key to the next
// top                the largest score of each query
//
// |error| <= (depth + 2) 2^-24 (scale sum |q k| + |bias|).
#include "post_tile.clh"

#ifndef NB
  #define NB 4
#endif
#ifndef UR
  #define UR 6
#endif

NOINLINE static void micro_scores(__global const float* restrict k, const long k_row, const int k_step,
                                  __global const float* restrict queries, const int depth, const int keys,
                                  __global float* restrict scores, const float scale, __global const float* bias,
                                  const int bias_step, __global float* restrict top) {
  #pragma unroll
  for (int j = 0; j < NB; j++) STORE16(top + j * 16, (float16)(-INFINITY));
  for (int begin = 0; begin < keys; begin += UR) {
    const int first = min(begin, keys - UR);
    __global const float *a = k + first * k_row, *b = queries;
    float16 sum[NB][UR];
    #pragma unroll
    for (int j = 0; j < NB; j++) {
      #pragma unroll
      for (int i = 0; i < UR; i++) sum[j][i] = 0.0f;
    }
    #pragma unroll 1
    for (int d = 0; d < depth; d++, a += k_step, b += 64) {
      float16 w[NB];
      #pragma unroll
      for (int j = 0; j < NB; j++) w[j] = LOAD16(b + j * 16);
      #pragma unroll
      for (int i = 0; i < UR; i++) {
        const float16 v = (float16)(a[i * k_row]);
        #pragma unroll
        for (int j = 0; j < NB; j++) sum[j][i] = fma(v, w[j], sum[j][i]);
      }
    }
    float16 most[NB];
    #pragma unroll
    for (int j = 0; j < NB; j++) most[j] = LOAD16(top + j * 16);
    #pragma unroll
    for (int i = 0; i < UR; i++) {
      const float added = bias ? bias[(first + i) * bias_step] : 0.0f;
      #pragma unroll
      for (int j = 0; j < NB; j++) {
        const float16 score = sum[j][i] * scale + added;
        STORE16(scores + (first + i) * 64 + j * 16, score);
        most[j] = score > most[j] ? score : most[j];
      }
    }
    #pragma unroll
    for (int j = 0; j < NB; j++) STORE16(top + j * 16, most[j]);
  }
}

#ifndef CLGRAPH_LIBRARY
__kernel void micro_scores_alone(__global const float* k, __global const float* queries, __global float* scores,
                                 __global float* top, const int depth, const int keys) {
  micro_scores(k, depth, 1, queries, depth, keys, scores, 1.0f, 0, 0, top);
}
#endif
