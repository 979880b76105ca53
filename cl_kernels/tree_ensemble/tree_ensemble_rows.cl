// Scores of rows by decision trees: ai.onnx.ml's TreeEnsemble, and the best class of each row.
//
// x       [rows, features] FEATURE, dense
// roots   [trees] long: where each tree begins
// nodes   [nodes][4] int. Of a node that compares: the bits of the float it compares a feature with, the feature times 16
//         and four bits, the node that follows where it is false, and where it is true (one load of the two: no branch). The
//         bits say what is true of a feature that is (1) none of these, as NaN is, (2) less, (4) greater, (8) equal. Of a leaf:
//         its first score, 0, itself, how many scores it has.
// targets, weights  [scores] long, float: what each score is added to, and how much
// labels  [rows] long: the place of the best class, where CLASSES
// scores  [rows, targets] float
// Grid: a work-item for each block of rows, n of them; it walks LANES trees at once, one row after the other, and of fewer
// trees LANES rows at once, one tree after the other.
// table: rows, rows of a block, trees, features, targets, aggregate (0 mean, 1 sum, 2 least, 3 greatest), transform
// (0 none, 1 softmax, 2 logistic, 3 softmax that leaves zeros), classes (0 a regressor; 1 the best score is taken; of two
// classes one has scores: 2 the first, which are those of the second; 3 the second), whether all weights are positive,
// bases, then each as the two words of a double.
// A block times the targets is SUMS at most, without a base the scores of which no leaf has any are 0.
//
// FEATURE  float or double; doubles are compared with the floats of nodes as doubles (default float)
// LANES    trees or rows that are walked at once, each a chain of loads (default 8)
// SUMS     doubles that a work-item adds up in (default 2048)
//
// Error: none in front of a transform: sums are those of doubles in the order of trees, and rounded once; behind it,
// those of exp and of two divisions in doubles, and one rounding to float. A class is the best by its rounded score: votes
// that are equal stay equal where the weights of leaves, 1/30 each, are not those of binary fractions.
#include "tensor.clh"
#pragma OPENCL EXTENSION cl_khr_fp64 : enable

#ifndef FEATURE
  #define FEATURE float
#endif
#ifndef LANES
  #define LANES 8
#endif
#ifndef SUMS
  #define SUMS 2048
#endif

enum { MEAN, SUM, LEAST, GREATEST };
enum { NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO };
enum { REGRESSOR, BEST, FIRST, SECOND };

typedef struct {
  float value;
  int feature, next[2];
} tree_node;

// Makes `at` the leaves that x reaches from there, lane i in the row i times pitch away, last at most.
static inline __attribute__((always_inline)) void descend(__global const FEATURE* x, const int pitch, const int last,
                                                        __global const tree_node* nodes, int* at) {
  for (int moved = 1; moved;) {
    moved = 0;
    __attribute__((opencl_unroll_hint)) for (int i = 0; i < LANES; i++) {
      __global const tree_node* node = nodes + at[i];
      const int feature = node->feature;
      const FEATURE found = x[min(i, last) * pitch + (feature >> 4)], value = node->value;
      const int which = (found <= value) | (found >= value) << 1;
      const int next = node->next[feature >> which & 1];
      moved |= next ^ at[i];
      at[i] = next;
    }
  }
}

// Adds the scores of a leaf to a row's sums.
static inline __attribute__((always_inline)) void add(const tree_node leaf, __global const long* targets_of,
                                                    __global const float* weights, const int aggregate,
                                                    double* sums, uchar* scored) {
  const int begin = as_int(leaf.value);
  for (int k = begin; k < begin + leaf.next[1]; k++) {
    const int to = (int)targets_of[k];
    const double weight = weights[k], sum = sums[to];
    scored[to] = 1;
    if (aggregate == LEAST) sums[to] = weight < sum || isnan(weight) ? weight : sum;
    else if (aggregate == GREATEST) sums[to] = weight > sum || isnan(weight) ? weight : sum;
    else sums[to] = sum + weight;
  }
}

static double double_at(__global const int* words, const int i) {
  return as_double((ulong)(uint)words[2 * i] | (ulong)(uint)words[2 * i + 1] << 32);
}

static double logistic(const double x) {
  const double small = 1 / (1 + exp(-fabs(x)));
  return x < 0 ? 1 - small : small;
}

// Applies the transform to a row.
static void transform(double* row, const int targets, const int function) {
  if (function == LOGISTIC)
    for (int k = 0; k < targets; k++) row[k] = logistic(row[k]);
  if (function != SOFTMAX && function != SOFTMAX_ZERO) return;
  double most = row[0], sum = 0;
  for (int k = 1; k < targets; k++) most = row[k] > most || isnan(row[k]) ? row[k] : most;
  for (int k = 0; k < targets; k++) {
    const int zero = function == SOFTMAX_ZERO && fabs(row[k]) <= 1e-7;
    row[k] = zero ? row[k] * exp(-most) : exp(row[k] - most);
    sum += zero ? 0 : row[k];
  }
  for (int k = 0; k < targets; k++) row[k] /= sum;
}

// Returns the class of a row whose scores end with the base, and makes those of two classes of one number.
static int classify(double* row, const uchar* scored, const int targets, const int classes, const int positive,
                    const int based, int* function) {
  const double bound = positive ? 0.5 : 0.0;
  if (classes == SECOND) return (float)row[1] > bound;
  if (classes == FIRST) {
    const double score = (float)row[0];
    row[0] = positive && *function != LOGISTIC ? 1 - score : -score;
    row[1] = score;
    if (*function != LOGISTIC) *function = NONE;
    return score > bound;
  }
  int best = 0;
  double most = -INFINITY;
  for (int k = 0; k < targets && !isnan(most); k++)
    if ((based || scored[k]) && ((float)row[k] > most || isnan(row[k]))) best = k, most = (float)row[k];
  return best;
}

__kernel void tree_ensemble_rows(const int n, TENSOR(in0), TENSOR(in1), TENSOR(in2), TENSOR(in3), TENSOR(in4),
                                 TENSOR(labels), TENSOR(out0), __global const int* table) {
  const int id = get_global_id(0);
  if (id >= n) return;
  const int block = table[1], trees = table[2], features = table[3], targets = table[4], aggregate = table[5];
  const int classes = table[7], bases = table[9], first = id * block, rows = min(block, table[0] - first);
  __global const FEATURE* x = BASE_OF(const FEATURE, in0) + (long)first * features;
  __global const float* weights = BASE_OF(const float, in4);
  __global const long *roots = BASE_OF(const long, in1), *targets_of = BASE_OF(const long, in3);
  __global const tree_node* nodes = BASE_OF(const tree_node, in2);
  double sums[SUMS];
  uchar scored[SUMS];
  const double start = aggregate == LEAST ? INFINITY : aggregate == GREATEST ? -INFINITY : 0.0;
  for (int i = 0; i < rows * targets; i++) sums[i] = start, scored[i] = 0;

  for (int tree = 0; trees < LANES && tree < trees; tree++) {
    for (int r = 0; r < rows; r += LANES) {
      const int last = min(LANES - 1, rows - 1 - r);
      int at[LANES];
      for (int i = 0; i < LANES; i++) at[i] = roots[tree];
      descend(x + (long)r * features, features, last, nodes, at);
      for (int i = 0; i <= last; i++)
        add(nodes[at[i]], targets_of, weights, aggregate, sums + (r + i) * targets, scored + (r + i) * targets);
    }
  }
  for (int tree = 0; trees >= LANES && tree < trees; tree += LANES) {
    for (int r = 0; r < rows; r++) {
      int at[LANES];
      for (int i = 0; i < LANES; i++) at[i] = roots[min(tree + i, trees - 1)];
      descend(x + (long)r * features, 0, 0, nodes, at);
      for (int i = 0; i < min(LANES, trees - tree); i++)
        add(nodes[at[i]], targets_of, weights, aggregate, sums + r * targets, scored + r * targets);
    }
  }

  for (int r = 0; r < rows; r++) {
    double* row = sums + r * targets;
    for (int k = 0; k < targets; k++) {
      double score = scored[r * targets + k] ? row[k] : 0.0;
      if (aggregate == MEAN) score /= max(trees, 1);
      row[k] = bases ? score + double_at(table + 10, bases == 1 ? 0 : k) : score + 0.0;
    }
    int function = table[6];
    if (classes) BASE_OF(long, labels)[first + r] = classify(row, scored + r * targets, targets, classes, table[8], bases, &function);
    transform(row, targets, function);
    for (int k = 0; k < targets; k++) BASE_OF(float, out0)[(long)(first + r) * targets + k] = row[k];
  }
}
