#!/bin/bash
# The examples, for a few seconds each: what an upper level learns improves a figure that it does not see itself. The
# runs are long enough for the improvement to be several times the difference between seeds.
. "$(dirname "$0")/common.sh" || exit 1

# weak_labels: weighing functions by their results on labelled texts, against a majority vote
run votes weak_labels engine.train_iters=300 engine.valid_step=300
run majority weak_labels engine.train_iters=300 engine.valid_step=300 engine.levels=classifier classifier.baseline=true
expect "$(metric votes classifier.valid.acc) > $(metric majority classifier.valid.acc) + 0.03"
expect "$(metric votes classifier.right) > 0.87" # 85 % of the votes are right

# three_level: strengths move independently, and the regularised level still learns
run three three_level engine.train_iters=200 engine.valid_step=200 classifier.hidden=20 reweight.hidden=10
expect "$(metric three strength.max) > -6.5 && $(metric three strength.mean) < $(metric three strength.max) - 0.2"
expect "$(metric three classifier.valid.acc) > 0.6"
run mixed three_level engine.train_iters=50 engine.valid_step=50 classifier.hidden=20 reweight.hidden=10 reweight.type=darts
expect "$(metric mixed strength.max) != -7"

# logistic_hpo: every method lowers the validation loss; cg, which inverts the Hessian, faster than darts, which does
# not
iters="engine.train_iters=300 engine.valid_step=300 model.unroll_steps=5 model.lr=0.3"
# shellcheck disable=SC2086
for type in darts cg; do run hpo-$type logistic_hpo $iters model.type=$type; done
# shellcheck disable=SC2086
run hpo-held logistic_hpo $iters penalty.lr=0
expect "$(metric hpo-darts model.valid.loss) < $(metric hpo-held model.valid.loss) - 0.1"
expect "$(metric hpo-cg model.valid.loss) < $(metric hpo-darts model.valid.loss) - 0.01"

# sine, maml: a learned start is better than an untrained one
tasks=(engine.train_iters=20000 engine.valid_step=20000 meta.valid_batches=100)
run sine sine "${tasks[@]}"
run held sine "${tasks[@]}" meta.lr=0
expect "$(metric sine meta.valid.mse_5) < 0.4 * $(metric held meta.valid.mse_5)"
run first sine "${tasks[@]}" learner.itd_second_order=0
run anil sine "${tasks[@]}" 'learner.trainable=2.*'
run rates sine "${tasks[@]}" meta.learned_rates=true learner.lr=1
run imaml sine engine.train_iters=50000 engine.valid_step=50000 meta.valid_batches=100 learner.type=cg \
    learner.cg_iterations=2 learner.proximal=2 learner.unroll_steps=10 learner.lr=0.002
for method in first anil rates; do
    expect "$(metric $method meta.valid.mse_5) < 0.4 * $(metric held meta.valid.mse_5)"
    expect "$(metric $method meta.valid.mse_5) != $(metric sine meta.valid.mse_5)"
done
expect "$(metric imaml meta.valid.mse_5) < 0.8 * $(metric held meta.valid.mse_5)"
run maml maml engine.train_iters=4000 engine.valid_step=4000 meta.valid_batches=100 learner.itd_second_order=0
expect "$(metric maml meta.valid.acc) > 0.3" # chance: 0.2

# learned_rate: a rate that is far too small is corrected
rates=(engine.train_iters=200 engine.valid_step=200 classifier.hidden=20 classifier.unroll_steps=10
    settings.start_lr=0.001 settings.batch_size=100)
run learned learned_rate "${rates[@]}" settings.lr=0.1
run fixed learned_rate "${rates[@]}" settings.lr=0
expect "$(metric learned classifier.valid.acc) > $(metric fixed classifier.valid.acc) + 0.15"

# curriculum: the limit on an example's loss decreases as the student learns, and wrong labels no longer count
run pace curriculum engine.train_iters=500 engine.valid_step=500
expect "$(metric pace pace.threshold) < 2.25 && $(metric pace student.valid.acc) > 0.88"

# distillation: learned images teach more than real ones
images=(engine.train_iters=600 engine.valid_step=600 student.hidden=20 images.batch_size=100)
run distilled distillation "${images[@]}" images.lr=0.02
run real distillation "${images[@]}" images.lr=0
expect "$(metric distilled images.valid.acc) > $(metric real images.valid.acc) + 0.08"
