// Compiles only if what the API answers, by its schema, is what the page takes it for.
import type * as answers from "./answers";
import type * as page from "./types";

/** An answer that may stand where the page expects something. */
type Is<Answer extends Expected, Expected> = Answer;

export type Checked = [
  Is<answers.SwitchRow, page.SwitchRow>,
  Is<answers.PortRow, page.PortRow>,
  Is<answers.HostRow, page.HostRow>,
  Is<answers.NamesAnswer, page.NamesAnswer>,
  Is<answers.RuleRow, page.RuleRow>,
  Is<answers.FlowRow, page.FlowRow>,
  Is<answers.DropRow, page.DropRow>,
  Is<answers.ErrorRow, page.ErrorRow>,
  Is<answers.MapAnswer, page.MapAnswer>,
  Is<answers.PolicyAnswer, page.PolicyAnswer>,
  Is<answers.Explanation, page.Explanation>,
  Is<answers.TreeRow, page.TreeRow>,
  Is<answers.TablesRow, page.TablesRow>,
  Is<answers.ControllerAnswer, page.ControllerAnswer>,
  Is<answers.DoctorAnswer, page.DoctorAnswer>,
  Is<answers.StatsAnswer, page.StatsAnswer>,
  Is<answers.StateRow, page.StateRow>,
  Is<answers.ValueRow, page.ValueRow>,
  Is<answers.HistoryRow, page.PastChange>,
  Is<answers.ReloadAnswer, page.Reloaded>,
  Is<answers.PlanAnswer, page.Plan>,
  Is<answers.TimeAnswer, page.TimeAnswer>,
  Is<answers.TimeAt, page.TimeAt>,
  Is<answers.TimeChanges, page.TimeChanges>,
  Is<answers.LogRow, page.LogRow>,
];
